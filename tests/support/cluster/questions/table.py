"""All questions in the order in which they are asked; the answers to some depend on those before."""

from __future__ import annotations

from tests.support.cluster.questions.canary_questions import CANARIED, CANARY_QUESTIONS
from tests.support.cluster.questions.other_questions import EVENT_QUESTIONS, LEASE_QUESTIONS, ROUTE_QUESTIONS
from tests.support.cluster.questions.question import LEASES, ROUTES, Question
from tests.support.cluster.questions.service_questions import (
    FIRST,
    FIRST_QUESTIONS,
    LAST_QUESTIONS,
    NEW_SERVICE_QUESTIONS,
)
from tests.support.cluster.questions.shape_questions import SHAPE_QUESTIONS

QUESTIONS: tuple[Question, ...] = (
    *FIRST_QUESTIONS,
    *CANARY_QUESTIONS,
    *NEW_SERVICE_QUESTIONS,
    *SHAPE_QUESTIONS,
    *ROUTE_QUESTIONS,
    *LEASE_QUESTIONS,
    *EVENT_QUESTIONS,
    *LAST_QUESTIONS,
)
# What the questions make and leave, besides events.
MADE = (FIRST, CANARIED, f"{ROUTES}/r", f"{ROUTES}/r-default", f"{ROUTES}/r-bad", f"{LEASES}/l")
