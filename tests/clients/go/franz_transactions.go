package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz-go: a plain producer, or with a group a GroupTransactSession, which returns to the committed offsets by itself.
type franzTransactions struct {
	bootstrap []string
	client    *kgo.Client
	session   *kgo.GroupTransactSession
	isOpen    bool
	failed    atomic.Pointer[error] // of a record of the open transaction
}

func (f *franzTransactions) open(bootstrap []string, id string, timeout time.Duration, group, topic string) error {
	f.close()
	f.bootstrap = bootstrap
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap...), kgo.TransactionalID(id), kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ProducerLinger(0)}
	var err error
	if group == "" {
		f.client, err = kgo.NewClient(options...)
	} else if f.session, err = kgo.NewGroupTransactSession(append(options, kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))...); err == nil {
		f.client = f.session.Client()
	}
	if err != nil {
		return err
	}
	limit, cancel := limited()
	defer cancel()
	_, _, err = f.client.ProducerID(limit)
	return err
}

func (f *franzTransactions) close() {
	if f.session != nil {
		f.session.CloseAllowingRebalance()
	} else if f.client != nil {
		f.client.Close()
	}
	f.session, f.client, f.isOpen = nil, nil, false
}

func (f *franzTransactions) begin() error {
	f.isOpen = true
	f.failed.Store(nil)
	return f.client.BeginTransaction()
}

func (f *franzTransactions) send(topic string, partition int32, value []byte, stored func(int64)) {
	f.client.Produce(context.Background(), &kgo.Record{Topic: topic, Partition: partition, Value: value},
		func(sent *kgo.Record, err error) {
			if err == nil {
				stored(sent.Offset)
			} else {
				f.failed.CompareAndSwap(nil, &err)
			}
		})
}

func (f *franzTransactions) offset(string, string, int32, int64) error {
	return errors.New("the offsets of a transaction are those of its session")
}

func (f *franzTransactions) poll(count int) ([]input, error) {
	limit, cancel := context.WithTimeout(context.Background(), pollTime)
	defer cancel()
	return inputs(f.session.PollRecords(limit, count)), nil
}

func inputs(fetches kgo.Fetches) []input {
	var found []input
	fetches.EachRecord(func(r *kgo.Record) {
		found = append(found, input{r.Topic, r.Partition, r.Offset, r.Value})
	})
	return found
}

func (f *franzTransactions) commit() error {
	limit, cancel := limited()
	defer cancel()
	if err := f.client.Flush(limit); err != nil {
		return err
	}
	// The client itself would commit without the record, or report success for a transaction without records.
	if failed := f.failed.Load(); failed != nil {
		return fmt.Errorf("a record failed, %w: %w", errAbort, *failed)
	}
	f.isOpen = false
	if f.session != nil {
		committed, err := f.session.End(limit, kgo.TryCommit)
		if err == nil && !committed {
			return fmt.Errorf("the session aborted: %w", errAbort)
		}
		return err
	}
	err := f.client.EndTransaction(limit, kgo.TryCommit)
	if errors.Is(err, kerr.OperationNotAttempted) || errors.Is(err, kerr.TransactionAbortable) {
		f.isOpen = true
		return fmt.Errorf("%w: %w", errAbort, err)
	}
	return err
}

func (f *franzTransactions) abort() error {
	if !f.isOpen {
		return nil
	}
	limit, cancel := limited()
	defer cancel()
	f.isOpen = false
	if f.session != nil {
		_, err := f.session.End(limit, kgo.TryAbort)
		return err
	}
	if err := f.client.AbortBufferedRecords(limit); err != nil {
		return err
	}
	return f.client.EndTransaction(limit, kgo.TryAbort)
}

func (f *franzTransactions) read(topic string, partition int32, count int) ([]input, error) {
	reader, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	limit, cancel := limited()
	defer cancel()
	var found []input
	for len(found) < count && limit.Err() == nil {
		found = append(found, inputs(reader.PollFetches(limit))...)
	}
	return found, limit.Err()
}
