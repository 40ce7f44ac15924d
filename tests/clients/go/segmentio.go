package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
)

// kafka-go: has no producer ids, so a record that is sent again may be stored twice.
type segmentio struct{}

var segmentioCodecs = map[string]compress.Compression{
	"none": compress.None, "gzip": compress.Gzip, "snappy": compress.Snappy, "lz4": compress.Lz4, "zstd": compress.Zstd,
}

const segmentioAttempts, segmentioPause = 600, 100 * time.Millisecond

func (segmentio) produce(bootstrap []string, topic, codec string, values <-chan string,
	acknowledged func(int32, int64, string)) error {
	var mutex sync.Mutex
	var failed error
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap...), Topic: topic, RequiredAcks: kafka.RequireAll, Async: true,
		Compression: segmentioCodecs[codec], BatchTimeout: 5 * time.Millisecond, MaxAttempts: segmentioAttempts,
		WriteBackoffMin: segmentioPause, WriteBackoffMax: segmentioPause, Balancer: &kafka.Murmur2Balancer{},
		Transport: &kafka.Transport{MetadataTTL: segmentioPause},
		Completion: func(sent []kafka.Message, err error) {
			mutex.Lock()
			defer mutex.Unlock()
			failed = errors.Join(failed, err)
			for _, each := range sent {
				if err == nil {
					acknowledged(int32(each.Partition), each.Offset, string(each.Value))
				}
			}
		},
	}
	for value := range values {
		err := writer.WriteMessages(context.Background(), kafka.Message{
			Key: []byte(value), Value: []byte(value), Headers: []kafka.Header{{Key: headerName, Value: []byte(value)}}})
		if err != nil {
			return errors.Join(err, writer.Close())
		}
	}
	err := writer.Close()
	mutex.Lock()
	defer mutex.Unlock()
	return errors.Join(failed, err)
}

func (segmentio) consume(bootstrap []string, topic, group string, stop <-chan struct{}, read func(record)) error {
	member := kafka.NewReader(kafka.ReaderConfig{
		Brokers: bootstrap, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond})
	context, cancel := context.WithCancel(context.Background())
	go func() {
		<-stop
		cancel()
	}()
	for {
		r, err := member.FetchMessage(context)
		if context.Err() != nil {
			return member.Close()
		}
		if err != nil {
			return errors.Join(err, member.Close())
		}
		read(record{int32(r.Partition), r.Offset, string(r.Key), string(r.Headers[0].Value), string(r.Value)})
		if err := member.CommitMessages(context, r); err != nil && context.Err() == nil {
			fmt.Fprintln(os.Stderr, err) // the next commit includes it
		}
	}
}
