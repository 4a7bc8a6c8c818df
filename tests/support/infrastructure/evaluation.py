"""A CloudFormation template with its functions evaluated, as a stack with some parameters would have it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

_ABSENT = object()
PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::AccountId": "ACCOUNT",
    "AWS::Region": "REGION",
    "AWS::StackName": "STACK",
    "AWS::URLSuffix": "amazonaws.com",
}
"""Pseudo parameters, named as the placeholders of include/manifests are."""


class Stack:
    """A template with parameters.

    :param template: as slipway_infrastructure makes it.
    :param given: parameters; those that are missing have their default.
    """

    def __init__(self, template: Mapping[str, Any], **given: str) -> None:
        assert given.keys() <= template.get("Parameters", {}).keys()
        self._template = template
        self._parameters = {
            name: str(given.get(name, one.get("Default", f"<{name}>")))
            for name, one in template.get("Parameters", {}).items()
        }

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return the resources that the stack creates, with their properties evaluated."""
        return {
            name: self.value(one)
            for name, one in self._template["Resources"].items()
            if "Condition" not in one or self._holds(one["Condition"])
        }

    def properties(self, name: str) -> dict[str, Any]:
        """Return the properties of a resource."""
        return dict(self.resources()[name]["Properties"])

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the properties of all resources of a type, by their names."""
        return {name: one["Properties"] for name, one in self.resources().items() if one["Type"] == kind}

    def outputs(self) -> dict[str, Any]:
        """Return the outputs that the stack has."""
        return {
            name: self.value(one["Value"])
            for name, one in self._template.get("Outputs", {}).items()
            if "Condition" not in one or self._holds(one["Condition"])
        }

    def value(self, node: Any) -> Any:
        """Return a part of the template with its functions evaluated."""
        if isinstance(node, list):
            values = [self.value(one) for one in node]
            return [one for one in values if one is not _ABSENT]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if name == "Ref" or name.startswith("Fn::"):
                return self._function(name, argument)
        pairs = {
            key: self.value(one) for key, one in node.items() if key != "Condition" or one_is_policy(one)
        }
        return {key: one for key, one in pairs.items() if one is not _ABSENT}

    def _function(self, name: str, argument: Any) -> Any:
        match name:
            case "Ref":
                return self._reference(argument)
            case "Fn::Sub":
                return re.sub(r"\$\{([^}]+)\}", lambda found: str(self._reference(found[1])), argument)
            case "Fn::GetAtt":
                return f"<{'.'.join(argument)}>"
            case "Fn::If":
                return self.value(argument[1 if self._holds(argument[0]) else 2])
            case "Fn::Select":
                found = self.value(argument[1])
                parts = found.split(",") if isinstance(found, str) else found
                return parts[int(argument[0])] if int(argument[0]) < len(parts) else f"<{found}>"
            case "Fn::Split":
                return str(self.value(argument[1])).split(argument[0])
            case "Fn::Join":
                return argument[0].join(self.value(argument[1]))
            case "Fn::Cidr":
                network = ipaddress.ip_network(self.value(argument[0]))
                return [str(one) for one in network.subnets(new_prefix=32 - argument[2])][: argument[1]]
        raise AssertionError(f"a function that is not evaluated here: {name}")

    def _reference(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _ABSENT
        return self._parameters.get(name, PSEUDO.get(name, f"<{name}>"))

    def _holds(self, name: str) -> bool:
        return self._true(self._template["Conditions"][name])

    def _true(self, condition: Mapping[str, Any]) -> bool:
        ((name, argument),) = condition.items()
        if name == "Fn::Not":
            return not self._true(argument[0])
        assert name == "Fn::Equals"
        left, right = (self.value(one) for one in argument)
        return bool(left == right)


def one_is_policy(condition: Any) -> bool:
    """Whether `Condition` is a part of a policy's statement, and not the name of a template's condition."""
    return isinstance(condition, dict)
