"""The network of the cluster: three zones, private subnets, NAT, and a way to S3 that costs nothing."""

from __future__ import annotations

from typing import Any

from slipway_infrastructure.template import (
    Json,
    attribute,
    choice,
    equals,
    one_of,
    output,
    ref,
    resource,
    sub,
    tags,
    template,
    text,
)

ZONES = 3
_SUBNETS = {"Fn::Cidr": [ref("Cidr"), 2 * ZONES, 13]}
_ANYWHERE = "0.0.0.0/0"


def _select(index: int, of: Any) -> Json:
    return {"Fn::Select": [index, of]}


def _name(what: str) -> Json:
    return sub(f"${{AWS::StackName}}-{what}")


def _zone(index: int) -> dict[str, Json]:
    """Return what one zone has: a public and a private subnet, each with a route, and an address for NAT."""
    number = index + 1
    nat = {} if index == 0 else {"Condition": "NatInEachZone"}
    gateway = ref(f"Nat{number}")
    zone = _select(index, ref("Zones"))
    public, private, table = f"Public{number}", f"Private{number}", f"PrivateRoutes{number}"
    return {
        public: resource(
            "AWS::EC2::Subnet",
            {
                "VpcId": ref("Vpc"),
                "AvailabilityZone": zone,
                "CidrBlock": _select(ZONES + index, _SUBNETS),
                "Tags": tags(**{"Name": _name(f"public-{number}"), "kubernetes.io/role/elb": "1"}),
            },
        ),
        f"PublicRoute{number}": resource(
            "AWS::EC2::SubnetRouteTableAssociation",
            {"SubnetId": ref(public), "RouteTableId": ref("PublicRoutes")},
        ),
        private: resource(
            "AWS::EC2::Subnet",
            {
                "VpcId": ref("Vpc"),
                "AvailabilityZone": zone,
                "CidrBlock": _select(index, _SUBNETS),
                "Tags": tags(**{"Name": _name(f"private-{number}"), "kubernetes.io/role/internal-elb": "1"}),
            },
        ),
        table: resource(
            "AWS::EC2::RouteTable",
            {"VpcId": ref("Vpc"), "Tags": tags(Name=_name(f"private-{number}"))},
        ),
        f"PrivateRoute{number}": resource(
            "AWS::EC2::SubnetRouteTableAssociation",
            {"SubnetId": ref(private), "RouteTableId": ref(table)},
        ),
        f"Address{number}": resource("AWS::EC2::EIP", {"Domain": "vpc"}, DependsOn="Attachment", **nat),
        f"Nat{number}": resource(
            "AWS::EC2::NatGateway",
            {
                "SubnetId": ref(public),
                "AllocationId": attribute("AllocationId", f"Address{number}"),
                "Tags": tags(Name=_name(f"nat-{number}")),
            },
            **nat,
        ),
        f"ThroughNat{number}": resource(
            "AWS::EC2::Route",
            {
                "RouteTableId": ref(table),
                "DestinationCidrBlock": _ANYWHERE,
                "NatGatewayId": gateway if index == 0 else choice("NatInEachZone", gateway, ref("Nat1")),
            },
        ),
    }


def network() -> Json:
    """Return the template of the network."""
    resources = {
        "Vpc": resource(
            "AWS::EC2::VPC",
            {
                "CidrBlock": ref("Cidr"),
                "EnableDnsSupport": True,
                "EnableDnsHostnames": True,
                "Tags": tags(Name=ref("AWS::StackName")),
            },
        ),
        "Gateway": resource("AWS::EC2::InternetGateway", {"Tags": tags(Name=ref("AWS::StackName"))}),
        "Attachment": resource(
            "AWS::EC2::VPCGatewayAttachment",
            {"VpcId": ref("Vpc"), "InternetGatewayId": ref("Gateway")},
        ),
        "PublicRoutes": resource(
            "AWS::EC2::RouteTable", {"VpcId": ref("Vpc"), "Tags": tags(Name=_name("public"))}
        ),
        "ToTheInternet": resource(
            "AWS::EC2::Route",
            {
                "RouteTableId": ref("PublicRoutes"),
                "DestinationCidrBlock": _ANYWHERE,
                "GatewayId": ref("Gateway"),
            },
            DependsOn="Attachment",
        ),
        "S3": resource(
            "AWS::EC2::VPCEndpoint",
            {
                "VpcId": ref("Vpc"),
                "VpcEndpointType": "Gateway",
                "ServiceName": sub("com.amazonaws.${AWS::Region}.s3"),
                "RouteTableIds": [ref(f"PrivateRoutes{index + 1}") for index in range(ZONES)],
            },
        ),
    }
    for index in range(ZONES):
        resources.update(_zone(index))
    return template(
        "Slipway: the network of the cluster",
        resources,
        parameters={
            "Zones": {
                "Type": "List<AWS::EC2::AvailabilityZone::Name>",
                "Description": "Three zones with the instance types of the nodes: eu-west-1a,eu-west-1b,eu-west-1c.",
            },
            "Cidr": text(
                "The network's addresses: a block of /16, of which each subnet gets a /19.",
                "10.0.0.0/16",
                r"([0-9]{1,3}\.){3}[0-9]{1,3}/16",
            ),
            "Nat": one_of(
                "One NAT gateway for all zones, or one in each: it costs three times as much, and outlives a zone.",
                ("One", "InEachZone"),
                "InEachZone",
            ),
        },
        conditions={"NatInEachZone": equals("Nat", "InEachZone")},
        outputs={
            "PrivateSubnets": output(
                "The parameter Subnets of the cluster's stack.",
                {"Fn::Join": [",", [ref(f"Private{index + 1}") for index in range(ZONES)]]},
            ),
            "Vpc": output("The network.", ref("Vpc")),
        },
    )
