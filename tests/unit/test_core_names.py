"""Member names: what each library writes is recognised, everything else is not."""

import pytest

from zkcoord._core.names import EXCLUSIVE, MAX_SEQUENCE, SEQUENCE_HEADROOM, ParsedName, is_exhausted, parse

UUID = "01234567-89ab-4cde-8f01-23456789abcd"


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        (f"_c_{UUID}-lock-0000000007", ParsedName("lock-", "exclusive", 7, "curator")),
        (f"_c_{UUID}-latch-0000000007", ParsedName("latch-", "latch", 7, "curator-latch")),
        (f"_c_{UUID}-__READ__0000000007", ParsedName("__READ__", "read", 7, "curator")),
        (f"_c_{UUID}-__WRIT__0000000007", ParsedName("__WRIT__", "write", 7, "curator")),
        ("0123456789abcdef__lock__0000000007", ParsedName("__lock__", "exclusive", 7, "kazoo")),
        ("0123456789abcdef__rlock__0000000007", ParsedName("__rlock__", "read", 7, "kazoo")),
        (f"_c_{UUID}-permit-0000000007", ParsedName("permit-", "permit", 7, "semaphore", 1)),
        (f"_c_{UUID}-permit3-0000000007", ParsedName("permit-", "permit", 7, "semaphore", 3)),
        (f"_c_{UUID}-permit120-0000000007", ParsedName("permit-", "permit", 7, "semaphore", 120)),
        ("lock-0000000000", ParsedName("lock-", "exclusive", 0, "curator")),
        ("lock-9999999999", ParsedName("lock-", "exclusive", 9_999_999_999, "curator")),
        ("lock--000000005", ParsedName("lock-", "exclusive", -5, "curator")),
        ("lock--2147483648", ParsedName("lock-", "exclusive", -(2**31), "curator")),
        ("latch-0000000001-lock-0000000002", ParsedName("lock-", "exclusive", 2, "curator")),
    ],
)
def test_members_of_every_library_are_taken_apart(name, parsed):
    assert parsed == parse(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "config",
        "0000000001",
        "lock-5",
        "lock-00000000001",
        "lock-000000001",
        "lock-0000000001x",
        "lock-0000000001\n",
        "lock-٠٠٠٠٠٠٠٠٠١",
        "lock--00000005",
        "__read__0000000001",
        "permit0-0000000001",
        "permit12345678901-0000000001",
        "permitx-0000000001",
    ],
)
def test_other_children_are_nobodys_members(name):
    assert None is parse(name)


@pytest.mark.parametrize(
    ("dialect", "prefix"),
    [
        ("curator", f"_c_{UUID}-lock-"),
        ("curator-latch", f"_c_{UUID}-latch-"),
        ("kazoo", "0123456789ab4cde8f0123456789abcd__lock__"),
    ],
)
def test_our_names_have_the_librarys_layout_and_are_recognised_again(dialect, prefix):
    rule = EXCLUSIVE[dialect]

    parsed = parse(f"{rule.prefix(UUID)}0000000003")

    assert prefix == rule.prefix(UUID)
    assert (rule.marker, dialect) == (parsed.marker, parsed.dialect)


def test_exclusive_rules_wait_for_all_peers():
    assert {
        "curator": ("lock-", {"lock-"}),
        "curator-latch": ("latch-", {"latch-"}),
        "kazoo": ("__lock__", {"__lock__", "__rlock__"}),
    } == {dialect: (rule.marker, rule.blockers) for dialect, rule in EXCLUSIVE.items()}
    assert all(rule.peers == rule.blockers and rule.dialect == name for name, rule in EXCLUSIVE.items())


@pytest.mark.parametrize(
    ("sequence", "exhausted"),
    [
        (0, False),
        (MAX_SEQUENCE - SEQUENCE_HEADROOM, False),
        (MAX_SEQUENCE - SEQUENCE_HEADROOM + 1, True),
        (MAX_SEQUENCE, True),
        (-1, True),
    ],
)
def test_the_last_million_numbers_and_wrapped_ones_are_refused(sequence, exhausted):
    assert exhausted == is_exhausted(sequence)


def test_the_counter_freezes_at_the_largest_int_of_java():
    assert (2_147_483_647, 1_000_000) == (MAX_SEQUENCE, SEQUENCE_HEADROOM)
