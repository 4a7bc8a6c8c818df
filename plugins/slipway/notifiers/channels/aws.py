"""SNS, SQS and SES through the amazon provider's hooks: by a role, so that no key lies in any address."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, ClassVar, Self

from slipway.notifiers.channel import CHANNELS, Channel
from slipway.notifiers.receiver import ANSWER_LIMIT_S, CONNECT_LIMIT_S, NotDeliveredError, without_secrets
from slipway_core.errors import InputMissingError
from slipway_core.operations.notices.message import Message

if TYPE_CHECKING:
    from airflow.sdk import Connection

AWS_ADDRESS = re.compile(r"(?P<service>sns|sqs|ses)\+aws://(?P<target>\S+)")
DEFAULT_CONN_ID = "aws_default"
_SUBJECT_LIMIT = 100
_MAIL = re.compile(r"(?P<sender>[^\s/,]+@[^\s/,]+)/(?P<to>[^\s/,]+@[^\s/,]+(,[^\s/,]+@[^\s/,]+)*)")
_ARN = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?")


@CHANNELS.register
class AwsChannel(Channel):
    """Sends messages to a topic, to a queue or by e-mail.

    :param address: `sns+aws://TOPIC_ARN`, `sqs+aws://QUEUE_URL_WITHOUT_HTTPS` or `ses+aws://FROM/TO,TO`.
    :param aws_conn_id: an Airflow connection of type ``aws``.
    :raises InputMissingError: it is no such address.
    """

    name: ClassVar[str] = "aws"
    password: ClassVar[re.Pattern[str] | None] = re.compile(r"(?!whsec_).*\+aws://", re.DOTALL)

    def __init__(self, address: str, aws_conn_id: str = DEFAULT_CONN_ID) -> None:
        found = AWS_ADDRESS.fullmatch(address)
        service, target = ("", "") if found is None else (found["service"], found["target"])
        fits = {"sns": _ARN.fullmatch, "ses": _MAIL.fullmatch, "sqs": re.compile(r"[^/]+/\S+").fullmatch}
        if service not in fits or not fits[service](target):
            raise InputMissingError(
                "the connection of an AWS receiver has an unsupported address",
                expected="sns+aws://TOPIC_ARN, sqs+aws://HOST/ACCOUNT/QUEUE or ses+aws://FROM/TO,TO",
                found=f"{service or 'another scheme'}",
                remedy="see docs/notifications.md",
            )
        self._service, self._target, self._conn_id = service, target, aws_conn_id

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """Return the channel to the address in the connection's password; its login is the connection of AWS."""
        return cls((connection.password or "").strip(), connection.login or DEFAULT_CONN_ID)

    def send(self, message: Message) -> None:
        """Send the message, once; the delivery tries again.

        :raises NotDeliveredError: it was not taken, or AWS is not reached.
        """
        try:
            {"sns": self._publish, "sqs": self._enqueue, "ses": self._mail}[self._service](message)
        except Exception as error:  # botocore's and Airflow's, of which there are many
            raise NotDeliveredError(
                f"{self._service.upper()} did not accept the message",
                expected=f"a role with permission to send there, from the connection {self._conn_id!r}",
                found=without_secrets(f"{type(error).__name__}: {error}", self._target),
                remedy="it is retried; check the connection, the role and the address",
            ) from None

    def _publish(self, message: Message) -> None:
        from airflow.providers.amazon.aws.hooks.sns import SnsHook

        given: dict[str, Any] = {
            "TopicArn": self._target,
            "Subject": _subject(message),
            "Message": message.text,
            "MessageAttributes": _attributes(message),
        }
        if self._target.endswith(".fifo"):
            given |= {"MessageGroupId": "slipway", "MessageDeduplicationId": message.id}
        # The hook's own call has no place for the identity by which a topic that keeps an order leaves copies out.
        SnsHook(**self._limits()).get_conn().publish(**given)

    def _enqueue(self, message: Message) -> None:
        from airflow.providers.amazon.aws.hooks.sqs import SqsHook

        client = SqsHook(**self._limits()).get_conn()
        host = "" if client.meta.endpoint_url is None else client.meta.endpoint_url
        scheme = "http" if host.startswith("http://") else "https"
        given: dict[str, Any] = {
            "QueueUrl": f"{scheme}://{self._target}",
            "MessageBody": json.dumps(message.data),
            "MessageAttributes": _attributes(message),
        }
        if self._target.endswith(".fifo"):
            given |= {"MessageGroupId": "slipway", "MessageDeduplicationId": message.id}
        client.send_message(**given)

    def _mail(self, message: Message) -> None:
        from airflow.providers.amazon.aws.hooks.ses import SesHook

        found = _MAIL.fullmatch(self._target)
        assert found is not None  # noqa: S101  asked when the receiver was made
        SesHook(**self._limits()).get_conn().send_email(
            Source=found["sender"],
            Destination={"ToAddresses": found["to"].split(",")},
            Message={
                "Subject": {"Data": message.title, "Charset": "UTF-8"},
                "Body": {"Text": {"Data": message.text, "Charset": "UTF-8"}},
            },
        )

    def _limits(self) -> dict[str, Any]:
        from botocore.config import Config

        limits = Config(
            connect_timeout=CONNECT_LIMIT_S, read_timeout=ANSWER_LIMIT_S, retries={"total_max_attempts": 1}
        )
        return {"aws_conn_id": self._conn_id, "config": limits}


def _subject(message: Message) -> str:
    """Return the title as SNS takes it: ASCII, in one line, short."""
    return message.title.encode("ascii", "replace").decode()[:_SUBJECT_LIMIT]


def _attributes(message: Message) -> dict[str, dict[str, str]]:
    return {
        "slipway-notice": {"DataType": "String", "StringValue": message.id},
        "severity": {"DataType": "String", "StringValue": message.severity},
    }
