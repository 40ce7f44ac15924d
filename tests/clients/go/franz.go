package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// franz-go: idempotent by default, static members, cooperative-sticky groups.
type franz struct{}

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (franz) produce(bootstrap []string, topic, codec string, values <-chan string,
	acknowledged func(int32, int64, string)) error {
	secured, err := franzSecurity()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(secured, kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(franzCodecs[codec]), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		return err
	}
	defer client.Close()
	var mutex sync.Mutex
	var failed error
	for value := range values {
		client.Produce(context.Background(), &kgo.Record{
			Key: []byte(value), Value: []byte(value), Headers: []kgo.RecordHeader{{Key: headerName, Value: []byte(value)}},
		}, func(sent *kgo.Record, err error) {
			if err == nil {
				acknowledged(sent.Partition, sent.Offset, string(sent.Value))
				return
			}
			mutex.Lock()
			defer mutex.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		return err
	}
	mutex.Lock()
	defer mutex.Unlock()
	return failed
}

func (franz) consume(bootstrap []string, topic, group string, stop <-chan struct{}, read func(record)) error {
	secured, err := franzSecurity()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(secured, kgo.SeedBrokers(bootstrap...), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll())...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	context, cancel := context.WithCancel(context.Background())
	go func() {
		<-stop
		cancel()
	}()
	for {
		fetches := client.PollFetches(context)
		if context.Err() != nil {
			return nil
		}
		// It retries a failed fetch by itself: a broker that has just died is no reason to end.
		fetches.EachError(func(_ string, _ int32, err error) { fmt.Fprintln(os.Stderr, err) })
		fetches.EachRecord(func(r *kgo.Record) {
			read(record{r.Partition, r.Offset, string(r.Key), string(r.Headers[0].Value), string(r.Value)})
		})
		if err := client.CommitUncommittedOffsets(context); err != nil && context.Err() == nil {
			fmt.Fprintln(os.Stderr, err) // the next commit includes it
		}
		client.AllowRebalance()
	}
}
