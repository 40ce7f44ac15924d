package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// Sarama: its asynchronous producer, or the one whose calls wait for the acknowledgement. It has no session of a group.
type saramaTransactions struct {
	waits     bool
	bootstrap []string
	producer  transactionalProducer
	accept    func(*sarama.ProducerMessage)
	ended     sync.WaitGroup
}

// What both producers of Sarama have.
type transactionalProducer interface {
	TxnStatus() sarama.ProducerTxnStatusFlag
	BeginTxn() error
	CommitTxn() error
	AbortTxn() error
	AddOffsetsToTxn(offsets map[string][]*sarama.PartitionOffsetMetadata, group string) error
	Close() error
}

func (s *saramaTransactions) open(bootstrap []string, id string, timeout time.Duration, group, topic string) error {
	if group != "" {
		return errors.New("there is no session of a group")
	}
	s.close()
	s.bootstrap = bootstrap
	config := saramaConfig()
	config.Metadata.Retry.Max = int(callTime / saramaPause)
	config.Net.ReadTimeout = callTime
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes, config.Producer.Return.Errors = true, true
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = int(callTime/saramaPause), saramaPause
	config.Producer.Transaction.ID, config.Producer.Transaction.Timeout = id, timeout
	config.Producer.Transaction.Retry.Max = int(callTime / saramaPause)
	config.Producer.Transaction.Retry.Backoff = saramaPause
	if s.waits {
		return s.openSync(config)
	}
	return s.openAsync(config)
}

func (s *saramaTransactions) openSync(config *sarama.Config) error {
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	if err != nil {
		return err
	}
	s.producer = producer
	s.accept = func(message *sarama.ProducerMessage) {
		if _, offset, err := producer.SendMessage(message); err == nil {
			message.Metadata.(func(int64))(offset)
		}
	}
	return nil
}

func (s *saramaTransactions) openAsync(config *sarama.Config) error {
	producer, err := sarama.NewAsyncProducer(s.bootstrap, config)
	if err != nil {
		return err
	}
	s.producer = producer
	s.accept = func(message *sarama.ProducerMessage) { producer.Input() <- message }
	s.ended.Add(2)
	go func() {
		defer s.ended.Done()
		for range producer.Errors() { // the transaction has the error too
		}
	}()
	go func() {
		defer s.ended.Done()
		for sent := range producer.Successes() {
			sent.Metadata.(func(int64))(sent.Offset)
		}
	}()
	return nil
}

func (s *saramaTransactions) close() {
	if s.producer == nil {
		return
	}
	_ = s.producer.Close() // of one that cannot continue, this is the error that ended it
	s.ended.Wait()
	s.producer = nil
}

func (s *saramaTransactions) begin() error { return s.ending(s.producer.BeginTxn()) }

func (s *saramaTransactions) send(topic string, partition int32, value []byte, stored func(int64)) {
	s.accept(&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.ByteEncoder(value),
		Metadata: stored})
}

func (s *saramaTransactions) offset(group, topic string, partition int32, offset int64) error {
	return s.ending(s.producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{
		topic: {{Partition: partition, Offset: offset}}}, group))
}

func (s *saramaTransactions) commit() error { return s.ending(s.producer.CommitTxn()) }
func (s *saramaTransactions) abort() error  { return s.ending(s.producer.AbortTxn()) }

func (s *saramaTransactions) ending(err error) error {
	if err != nil && s.producer.TxnStatus()&sarama.ProducerTxnFlagAbortableError != 0 {
		return fmt.Errorf("%w: %w", errAbort, err)
	}
	return err
}

func (s *saramaTransactions) poll(int) ([]input, error) {
	return nil, errors.New("there is no session of a group")
}

func (s *saramaTransactions) read(topic string, partition int32, count int) ([]input, error) {
	config := saramaConfig()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(s.bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	claim, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer claim.Close()
	var found []input
	for until := time.After(callTime); len(found) < count; {
		select {
		case r := <-claim.Messages():
			found = append(found, input{r.Topic, r.Partition, r.Offset, r.Value})
		case <-until:
			return nil, fmt.Errorf("only %d records of %d", len(found), count)
		}
	}
	return found, nil
}
