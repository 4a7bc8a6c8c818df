"""The parts of which a CloudFormation template is made, as plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]
LIMIT_BYTES = 51_200
"""The size up to which CloudFormation takes a template without a bucket to upload it to."""

BUCKET_NAME: Json = {
    "Type": "String",
    "AllowedPattern": "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    "Description": "The bucket of models, as the Airflow variable slipway_bucket names it.",
}
CLUSTER_NAME: Json = {
    "Type": "String",
    "Default": "slipway",
    "AllowedPattern": "[0-9A-Za-z][A-Za-z0-9_-]{0,99}",
    "Description": "The cluster's name in EKS.",
}


def template(
    description: str,
    resources: Mapping[str, Json],
    *,
    parameters: Mapping[str, Json] | None = None,
    conditions: Mapping[str, Json] | None = None,
    rules: Mapping[str, Json] | None = None,
    outputs: Mapping[str, Json] | None = None,
) -> Json:
    """Return a template; parts that are empty are omitted."""
    parts = {
        "Parameters": parameters,
        "Rules": rules,
        "Conditions": conditions,
        "Resources": resources,
        "Outputs": outputs,
    }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": description,
        **{name: dict(part) for name, part in parts.items() if part},
    }


def resource(kind: str, properties: Json, **attributes: Any) -> Json:
    """Return a resource; attributes are those beside its properties, such as Condition and DependsOn."""
    return {"Type": kind, **attributes, "Properties": properties}


def ref(name: str) -> Json:
    """Return the value of a parameter, or the identifier of a resource."""
    return {"Ref": name}


def attribute(name: str, of: str) -> Json:
    """Return an attribute of a resource."""
    return {"Fn::GetAtt": [of, name]}


def sub(text: str) -> Json:
    """Return a text in which ${NAME} stands for a parameter, a resource or a pseudo parameter."""
    return {"Fn::Sub": text}


def choice(condition: str, then: Any, otherwise: Any) -> Json:
    """Return one of two values."""
    return {"Fn::If": [condition, then, otherwise]}


def only_if(condition: str, value: Any) -> Json:
    """Return a value that is left out if the condition does not hold."""
    return choice(condition, value, ref("AWS::NoValue"))


def equals(parameter: str, value: str) -> Json:
    """Return the condition that a parameter has a value."""
    return {"Fn::Equals": [ref(parameter), value]}


def differs(parameter: str, value: str) -> Json:
    """Return the condition that a parameter has another value."""
    return {"Fn::Not": [equals(parameter, value)]}


def one_of(description: str, values: Iterable[str], default: str) -> Json:
    """Return a parameter that takes one of some values."""
    return {
        "Type": "String",
        "AllowedValues": list(values),
        "Default": default,
        "Description": description,
    }


def text(description: str, default: str | None = None, pattern: str | None = None) -> Json:
    """Return a parameter for a text; without a default it is required."""
    parameter: Json = {"Type": "String"}
    if default is not None:
        parameter["Default"] = default
    if pattern is not None:
        parameter["AllowedPattern"] = pattern
    return {**parameter, "Description": description}


def number(description: str, default: int, least: int = 0) -> Json:
    """Return a parameter for a whole number."""
    return {"Type": "Number", "Default": default, "MinValue": least, "Description": description}


def output(description: str, value: Any, condition: str | None = None) -> Json:
    """Return an output of a stack."""
    chosen = {"Condition": condition} if condition else {}
    return {**chosen, "Description": description, "Value": value}


def tags(**values: Any) -> list[Json]:
    """Return tags as most resources have them."""
    return [{"Key": key, "Value": value} for key, value in values.items()]
