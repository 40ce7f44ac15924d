package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// Sarama: idempotent with the settings that it requires (one request at a time), eager groups.
type saramaClient struct{}

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

const saramaRetries, saramaPause = 600, 100 * time.Millisecond

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Metadata.Retry.Max, config.Metadata.Retry.Backoff = saramaRetries, saramaPause
	return config
}

func (saramaClient) produce(bootstrap []string, topic, codec string, values <-chan string,
	acknowledged func(int32, int64, string)) error {
	config := saramaConfig()
	if err := secureSarama(config); err != nil {
		return err
	}
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Compression = saramaCodecs[codec]
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = saramaRetries, saramaPause
	producer, err := sarama.NewAsyncProducer(bootstrap, config)
	if err != nil {
		return err
	}
	var pending sync.WaitGroup
	go func() {
		for value := range values {
			pending.Add(1)
			producer.Input() <- &sarama.ProducerMessage{
				Topic: topic, Key: sarama.StringEncoder(value), Value: sarama.StringEncoder(value),
				Headers: []sarama.RecordHeader{{Key: []byte(headerName), Value: []byte(value)}},
			}
		}
		pending.Wait() // closing discards the records that it would retry
		producer.AsyncClose()
	}()
	ended := make(chan error)
	go func() {
		var failed error
		for err := range producer.Errors() {
			failed = errors.Join(failed, err)
			pending.Done()
		}
		ended <- failed
	}()
	for sent := range producer.Successes() {
		acknowledged(sent.Partition, sent.Offset, string(sent.Value.(sarama.StringEncoder)))
		pending.Done()
	}
	return <-ended
}

func (saramaClient) consume(bootstrap []string, topic, group string, stop <-chan struct{}, read func(record)) error {
	config := saramaConfig()
	if err := secureSarama(config); err != nil {
		return err
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	member, err := sarama.NewConsumerGroup(bootstrap, group, config)
	if err != nil {
		return err
	}
	context, cancel := context.WithCancel(context.Background())
	go func() {
		<-stop
		cancel()
	}()
	for context.Err() == nil {
		if err := member.Consume(context, []string{topic}, reader(read)); err != nil {
			return errors.Join(err, member.Close())
		}
	}
	return member.Close()
}

type reader func(record)

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (read reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case r, open := <-claim.Messages():
			if !open {
				return nil
			}
			read(record{r.Partition, r.Offset, string(r.Key), string(r.Headers[0].Value), string(r.Value)})
			session.MarkMessage(r, "")
			if claim.HighWaterMarkOffset() == r.Offset+1 {
				session.Commit()
			}
		case <-session.Context().Done():
			session.Commit()
			return nil
		}
	}
}
