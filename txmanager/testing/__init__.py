"""What others need to test parts of their own against txmanager. Needs pytest; nothing of txmanager imports it."""

import pytest

pytest.register_assert_rewrite("txmanager.testing.ledger")  # so that a broken promise says what it saw
