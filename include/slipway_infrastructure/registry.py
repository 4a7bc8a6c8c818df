"""Repositories for the images in ECR, and a role with which CI pushes them."""

from __future__ import annotations

import json
import re

from slipway_infrastructure.manifests import image_names
from slipway_infrastructure.template import (
    Json,
    attribute,
    differs,
    output,
    resource,
    sub,
    template,
    text,
)

PREFIX = "slipway"
PUSHER = "slipway-images"
GITHUB = "token.actions.githubusercontent.com"
# Tagged images stay: release files name them, and a node may pull them years later.
LIFECYCLE = {
    "rules": [
        {
            "rulePriority": 1,
            "description": "Images without a tag are removed after two weeks.",
            "selection": {
                "tagStatus": "untagged",
                "countType": "sinceImagePushed",
                "countUnit": "days",
                "countNumber": 14,
            },
            "action": {"type": "expire"},
        }
    ]
}


def _logical(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", name.title())


def _pusher() -> Json:
    repositories = sub(
        f"arn:${{AWS::Partition}}:ecr:${{AWS::Region}}:${{AWS::AccountId}}:repository/{PREFIX}/*"
    )
    pushes = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "LogsIn",
                "Effect": "Allow",
                "Action": "ecr:GetAuthorizationToken",
                "Resource": "*",
            },
            {
                "Sid": "PushesImages",
                "Effect": "Allow",
                "Action": [
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:CompleteLayerUpload",
                    "ecr:InitiateLayerUpload",
                    "ecr:PutImage",
                    "ecr:UploadLayerPart",
                ],
                "Resource": repositories,
            },
        ],
    }
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {
                    "Federated": sub(
                        f"arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:oidc-provider/{GITHUB}"
                    )
                },
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {
                    "StringEquals": {f"{GITHUB}:aud": "sts.amazonaws.com"},
                    "StringLike": {f"{GITHUB}:sub": sub("repo:${GitHubRepository}:ref:refs/tags/v*")},
                },
            }
        ],
    }
    return resource(
        "AWS::IAM::Role",
        {
            "RoleName": PUSHER,
            "AssumeRolePolicyDocument": trust,
            "Policies": [{"PolicyName": "own", "PolicyDocument": pushes}],
        },
        Condition="FromGitHub",
    )


def registry() -> Json:
    """Return the template of the repositories: one for each image that has a Dockerfile."""
    repositories = {
        _logical(name): resource(
            "AWS::ECR::Repository",
            {
                "RepositoryName": f"{PREFIX}/{name}",
                "ImageTagMutability": "IMMUTABLE",
                "ImageScanningConfiguration": {"ScanOnPush": True},
                "LifecyclePolicy": {"LifecyclePolicyText": json.dumps(LIFECYCLE)},
            },
            DeletionPolicy="Retain",
            UpdateReplacePolicy="Retain",
        )
        for name in image_names()
    }
    return template(
        "Slipway: repositories for the images, and the role with which CI pushes them",
        {**repositories, "Pusher": _pusher()},
        parameters={
            "GitHubRepository": text(
                "OWNER/NAME of the repository whose tags v* may push images by GitHub Actions; the account needs "
                f"GitHub's identity provider ({GITHUB}). Empty: no such role.",
                "",
                "([A-Za-z0-9-]+/[A-Za-z0-9._-]+)?",
            )
        },
        conditions={"FromGitHub": differs("GitHubRepository", "")},
        outputs={
            "Registry": output(
                "The parameter REGISTRY of make push-images, and images.registry of the chart.",
                sub(f"${{AWS::AccountId}}.dkr.ecr.${{AWS::Region}}.${{AWS::URLSuffix}}/{PREFIX}"),
            ),
            "PusherArn": output(
                "The role of the workflow that pushes.", attribute("Arn", "Pusher"), "FromGitHub"
            ),
        },
    )
