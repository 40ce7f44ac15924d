"""`ssl.principal.mapping.rules`: Kafka's own cases, and what is refused when the rules are parsed."""

import pytest

from kraft.security.principal_mapping import Rule, parse_mapping
from kraft_native.base.errors import InvalidArgumentError


@pytest.mark.parametrize("text", [
    "DEFAULT", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/", "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U", "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
    "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
])
def test_rules_that_kafka_accepts(text: str) -> None:
    parse_mapping(text)


@pytest.mark.parametrize("text", [
    "default", "DEFAUL", "DEFAULT/L", "DEFAULT/U", "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
    "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/L", "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
])
def test_rules_that_kafka_refuses(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"ssl\.principal\.mapping\.rules: .* is neither DEFAULT nor RULE"):
        parse_mapping(text)


def test_names_of_users() -> None:
    mapping = parse_mapping(
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT")
    assert [mapping.name_of(subject) for subject in (
        "CN=Duke,OU=ServiceUsers,O=Org,C=US", "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
        "cn=duke,ou=sme,dc=mycp,dc=com", "cN=duke,OU=JavaSoft,O=Sun Microsystems",
        "OU=JavaSoft,O=Sun Microsystems,C=US")] == [
        "duke", "duke@sme", "DUKE@SME", "DUKE", "OU=JavaSoft,O=Sun Microsystems,C=US"]
    assert parse_mapping("RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT").name_of(
        "CN=Tkac\\, Adam,OU=ITZ,DC=geodis,DC=cz") == "Tkac\\, Adam"
    assert parse_mapping("RULE:^CN=a$/x/").name_of("CN=b") is None


DEFAULT = None


@pytest.mark.parametrize(("text", "rules"), [
    ("", []), ("DEFAULT", [DEFAULT]), ("RULE://", [Rule("", "", "")]), ("RULE:/.*/", [Rule("", ".*", "")]),
    ("RULE:/.*/L", [Rule("", ".*", "L")]), ("RULE://,DEFAULT", [Rule("", "", ""), DEFAULT]),
    ("  RULE:// ,  DEFAULT  ", [Rule("", "", ""), DEFAULT]),
    ("  RULE:   /     / ,  DEFAULT  ", [Rule("   ", "     ", ""), DEFAULT]),
    ("  RULE:  /     /U   ,DEFAULT  ", [Rule("  ", "     ", "U"), DEFAULT]),
    ("  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ",
     [Rule("([A-Z]*)", "$1", "U"), Rule("([a-z]+)", "$1", ""), DEFAULT]),
    (",   , , ,      , , ,   ", []), (",,RULE://,,,DEFAULT,,", [Rule("", "", ""), DEFAULT]),
    (",  , RULE: /   /    ,,,   DEFAULT, ,   ", [Rule(" ", "   ", ""), DEFAULT]),
    ("RULE:\\/\\\\\\(\\)\\n\\t/\\/\\/\\//", [Rule("\\/\\\\\\(\\)\\n\\t", "\\/\\/\\/", "")]),
    ("RULE:\\**\\/+/*/L,RULE:\\/*\\**/**/", [Rule("\\**\\/+", "*", "L"), Rule("\\/*\\**", "**", "")]),
    ("RULE:,RULE:,/,RULE:,\\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,RULE:, DEFAULT, /DEFAULT/,DEFAULT",
     [Rule(",RULE:,", ",RULE:,\\/", "U"), Rule(",", "RULE:,", ""), Rule(",RULE:,", "L,RULE:,", "L"),
      Rule(", DEFAULT, ", "DEFAULT", ""), DEFAULT]),
])
def test_rules_are_separated_as_in_kafka(text: str, rules: list[Rule | None]) -> None:
    assert parse_mapping(text).rules == rules


@pytest.mark.parametrize(("rule", "subject", "name"), [
    ("RULE:(a)(b)/$1@$4/", "ab", "a@$4"),          # there is no fourth group: a text
    ("RULE:(a)/$12/", "a", "a2"),                  # nor a twelfth: the first, and a 2
    ("RULE:(a)/\\$1\\\\/", "a", "$1\\"),
    ("RULE:(?<who>a)b/${who}/U", "ab", "A"),
    ("RULE:(a)|b/[$1]/", "b", "[]"),
    ("RULE:.*/x/", "ab", "xx"),                    # the pattern matches the empty end again, as in Java
])
def test_groups_in_replacements(rule: str, subject: str, name: str) -> None:
    assert parse_mapping(rule).name_of(subject) == name


@pytest.mark.parametrize(("rule", "says"), [
    ("RULE:a(/b/", "the pattern 'a(' cannot be used"), ("RULE:a/$1/", "is no group of the pattern 'a'"),
    ("RULE:(a)/$/", r"\$ is a dollar sign"), ("RULE:(a)/${who}/", "is no group"),
])
def test_rules_that_could_never_apply_are_refused(rule: str, says: str) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        parse_mapping(rule)
    assert says in str(error.value)
