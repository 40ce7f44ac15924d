"""Settings of OAUTHBEARER: which tokens a listener accepts, and where a node's own tokens come from."""

import pytest

from kraft.config.errors import InvalidConfigError
from kraft.config.listener_settings import check_listener_setting
from kraft.config.node_config import NodeConfig
from kraft.config.oauth_settings import Provider, TokenLogin, TokenRules
from kraft.config.sasl_settings import Credentials, sasl_settings
from kraft.config.tables import broker_settings

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PREFIX = "listener.name.sasl_plaintext.oauthbearer."
JAAS = f"{PREFIX}sasl.jaas.config"
URL = "sasl.oauthbearer.jwks.endpoint.url"
BASE = {"listeners": "PLAINTEXT://h:1,SASL_PLAINTEXT://h:2,CONTROLLER://h:3", "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "OAUTHBEARER", JAAS: f"{MODULE};", URL: "https://p/keys"}
BETWEEN = {**BASE, "security.inter.broker.protocol": "SASL_PLAINTEXT",
           "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}


def rules(**texts: str) -> TokenRules:
    found = sasl_settings("SASL_PLAINTEXT", NodeConfig({**BASE, **texts}).layers()).tokens
    assert found is not None
    return found


def test_rules_of_signed_tokens() -> None:
    assert rules() == TokenRules(keys=Provider(url="https://p/keys"))
    found = rules(**{
        "sasl.oauthbearer.expected.audience": "a, b", "sasl.oauthbearer.expected.issuer": "i",
        "sasl.oauthbearer.clock.skew.seconds": "5", "sasl.oauthbearer.scope.claim.name": "scp",
        f"{PREFIX}sasl.oauthbearer.sub.claim.name": "azp", f"{PREFIX}{URL}": "file:///keys",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "9", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "1",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "2", "sasl.login.connect.timeout.ms": "3",
        "sasl.login.read.timeout.ms": "4", JAAS: f'{MODULE} ssl.truststore.location="ca.pem";'})
    provider = Provider(url="file:///keys", connect_ms=3, read_ms=4, retry_ms=1, retry_max_ms=2,
                        tls=(("ssl.truststore.location", "ca.pem"),))
    assert found == TokenRules(keys=provider, refresh_ms=9, audiences=("a", "b"), issuer="i", skew_ms=5_000,
                               scope_claim="scp", subject_claim="azp")
    assert provider.path == "/keys"


def test_rules_of_unsecured_tokens() -> None:
    jaas = f'{MODULE} unsecuredValidatorRequiredScope="a b" unsecuredValidatorAllowableClockSkewMs="7";'
    assert rules(**{URL: "", JAAS: jaas}) == TokenRules(scopes=("a", "b"), skew_ms=7)


def test_classes_of_kafka_that_do_what_happens_here() -> None:
    package = "org.apache.kafka.common.security.oauthbearer"
    texts = {f"{PREFIX}sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
             f"{PREFIX}sasl.login.callback.handler.class": f"{package}.secured.OAuthBearerLoginCallbackHandler"}
    config = NodeConfig({**BASE, **texts})
    assert config.ignored == {}
    for key, text in texts.items():
        check_listener_setting(key, text, broker_settings())
        with pytest.raises(InvalidConfigError, match="is not supported"):
            check_listener_setting(key, "com.example.Handler", broker_settings())


def test_a_login_of_the_node() -> None:
    jaas = f'{MODULE} clientId="c" clientSecret="hush" scope="s" extension_traceId="1";'
    config = NodeConfig({**BETWEEN, JAAS: jaas, "sasl.oauthbearer.token.endpoint.url": "https://p/token"})
    login = TokenLogin(provider=Provider(url="https://p/token"), client_id="c", client_secret="hush", scope="s",
                       extensions=(("traceId", "1"),))
    assert config.logins == {"SASL_PLAINTEXT": Credentials("OAUTHBEARER", "c", "", login)}
    assert "hush" not in repr(config.logins)
    settings = {"sasl.oauthbearer.client.credentials.client.id": "d", "sasl.oauthbearer.scope": "t",
                "sasl.oauthbearer.client.credentials.client.secret": "hush2"}
    found = NodeConfig({**config.texts, **settings}).logins["SASL_PLAINTEXT"].token
    assert found is not None
    assert (found.client_id, found.client_secret, found.scope) == ("d", "hush2", "t")
    jaas = (f'{MODULE} unsecuredLoginStringClaim_sub="n" unsecuredLoginNumberClaim_x="1" '
            'unsecuredLoginListClaim_scope="|a|b" unsecuredLoginLifetimeSeconds="60";')
    found = NodeConfig({**BETWEEN, JAAS: jaas}).logins["SASL_PLAINTEXT"].token
    assert found == TokenLogin(claims=(("sub", "n"), ("x", 1.0), ("scope", ("a", "b"))), lifetime_s=60)


@pytest.mark.parametrize(("base", "texts", "why"), [
    (BASE, {URL: ""}, "jwks.endpoint.url: is needed by OAUTHBEARER; unsecured tokens, which prove nothing, need"),
    (BASE, {URL: "", JAAS: f'{MODULE} unsecuredLoginStringClaim_sub="a";'}, "jwks.endpoint.url: is needed"),
    (BASE, {JAAS: f'{MODULE} unsecuredValidatorPrincipalClaimName="sub";'}, "accepts unsecured tokens, and .* signed"),
    (BASE, {JAAS: ""}, "says which tokens listener SASL_PLAINTEXT accepts, as: .*OAuthBearerLoginModule required;"),
    (BASE, {URL: "ftp://p/keys"}, "'ftp://p/keys' is not an address of https:, http:, file:"),
    (BASE, {URL: "https:///keys"}, "is not an address"), (BASE, {URL: "https://p:x/"}, "is not an address"),
    (BASE, {URL: "https://p/a b"}, "is not an address"),
    (BASE, {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "refresh.ms: 0 is below 1"),
    (BASE, {"sasl.oauthbearer.clock.skew.seconds": "-1"}, "skew.seconds: -1 is below 0"),
    (BASE, {"sasl.oauthbearer.sub.claim.name": " "}, "sub.claim.name: is empty"),
    (BASE, {URL: "", JAAS: f'{MODULE} unsecuredValidatorAllowableClockSkewMs="x";'}, "is not a whole number"),
    (BASE, {"sasl.oauthbearer.jwt.retriever.class": f"{MODULE.rpartition('.')[0]}.JwtBearerJwtRetriever"},
     "jwt.retriever.class: .*is not supported"),
    (BETWEEN, {}, "token.endpoint.url: is needed by a login with OAUTHBEARER"),
    (BETWEEN, {"sasl.oauthbearer.token.endpoint.url": "https://p"}, "has no clientId or no clientSecret"),
    (BETWEEN, {"sasl.oauthbearer.token.endpoint.url": "https://p", "sasl.oauthbearer.assertion.claim.iss": "me"},
     "assertion.private.key.file: is needed by an assertion"),
    (BETWEEN, {JAAS: f'{MODULE} unsecuredLoginListClaim_scope="|a";'}, "unsecuredLoginStringClaim_sub is missing"),
    (BETWEEN, {JAAS: f'{MODULE} unsecuredLoginNumberClaim_x="hush";'}, "unsecuredLoginNumberClaim_x is not a number"),
])
def test_settings_that_cannot_work_are_refused(base: dict[str, str], texts: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidConfigError, match=why) as error:
        NodeConfig({**base, **texts})
    assert "hush" not in str(error.value)
