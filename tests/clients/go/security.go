package main

import (
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash"
	"os"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	franzscram "github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/xdg-go/scram"
)

// Security of the connections, from the environment: CLIENT_CA is a file of PEM, CLIENT_MECHANISM is SCRAM-SHA-512 with
// CLIENT_USER and CLIENT_PASSWORD, or OAUTHBEARER with CLIENT_TOKEN. Without CLIENT_CA connections are plain.
type security struct{ ca, mechanism, user, password, token string }

func fromEnvironment() security {
	return security{os.Getenv("CLIENT_CA"), os.Getenv("CLIENT_MECHANISM"), os.Getenv("CLIENT_USER"),
		os.Getenv("CLIENT_PASSWORD"), os.Getenv("CLIENT_TOKEN")}
}

func (s security) tls() (*tls.Config, error) {
	text, err := os.ReadFile(s.ca)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", s.ca)
	}
	return &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, nil
}

func franzSecurity() ([]kgo.Opt, error) {
	found := fromEnvironment()
	if found.ca == "" {
		return nil, nil
	}
	config, err := found.tls()
	if err != nil {
		return nil, err
	}
	mechanism := kgo.SASL(franzscram.Auth{User: found.user, Pass: found.password}.AsSha512Mechanism())
	if found.mechanism == "OAUTHBEARER" {
		mechanism = kgo.SASL(oauth.Auth{Token: found.token}.AsMechanism())
	}
	return []kgo.Opt{kgo.DialTLSConfig(config), mechanism}, nil
}

func secureSarama(config *sarama.Config) error {
	found := fromEnvironment()
	if found.ca == "" {
		return nil
	}
	trusted, err := found.tls()
	if err != nil {
		return err
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = true, trusted
	config.Net.SASL.Enable, config.Net.SASL.Handshake = true, true
	config.Net.SASL.Version = sarama.SASLHandshakeV1
	if found.mechanism == "OAUTHBEARER" {
		config.Net.SASL.Mechanism = sarama.SASLTypeOAuth
		config.Net.SASL.TokenProvider = givenToken(found.token)
		return nil
	}
	config.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA512
	config.Net.SASL.User, config.Net.SASL.Password = found.user, found.password
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{} }
	return nil
}

type givenToken string

func (t givenToken) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t), Extensions: map[string]string{"traceId": "7"}}, nil
}

// SCRAM for Sarama, which has none of its own.
type conversation struct{ *scram.ClientConversation }

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := scram.HashGeneratorFcn(func() hash.Hash { return sha512.New() }).NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}
