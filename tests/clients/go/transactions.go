package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A producer with transactions, and a member of a group whose offsets are a part of them. `open` fences the producer
// that has had the transactional id, and ends the own one. Other errors than `errAbort` end the producer.
type transactional interface {
	open(bootstrap []string, id string, timeout time.Duration, group, topic string) error
	begin() error
	send(topic string, partition int32, value []byte, stored func(offset int64))
	offset(group, topic string, partition int32, offset int64) error
	poll(count int) ([]input, error)
	commit() error
	abort() error
	read(topic string, partition int32, count int) ([]input, error)
}

type input struct {
	topic     string
	partition int32
	offset    int64
	value     []byte
}

// The transaction has to be aborted, or has been.
var errAbort = errors.New("the transaction has to be aborted")

const callTime, pollTime = 30 * time.Second, 200 * time.Millisecond

var producers = map[string]func() transactional{
	"franz-go":    func() transactional { return &franzTransactions{} },
	"sarama":      func() transactional { return &saramaTransactions{} },
	"sarama-sync": func() transactional { return &saramaTransactions{waits: true} },
}

// Carries out the commands of standard input:
//
//	open ID TIMEOUT_MS [GROUP TOPIC]   begin   send NUMBER TOPIC PARTITION VALUE   offset GROUP TOPIC PARTITION OFFSET
//	poll COUNT   commit   abort   read TOPIC PARTITION COUNT
//
// Values are hexadecimal. Each but `send` has one line as its answer: `done`, `abort TEXT` if the transaction has to be
// aborted, `lost TEXT` if the producer cannot continue, or `records TOPIC:PARTITION:OFFSET:VALUE ...`. An acknowledged
// record is reported by `stored NUMBER OFFSET`. `read` returns the first COUNT committed records of a partition.
func transactions(library, bootstrap string) error {
	create, known := producers[library]
	if !known {
		return fmt.Errorf("no transactions of %q", library)
	}
	out, producer := newLines(), create()
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Split(commands.Text(), " ")
		if words[0] == "send" {
			number := words[1]
			value, err := hex.DecodeString(words[4])
			if err != nil {
				return err
			}
			producer.send(words[2], int32(parse(words[3])), value, func(offset int64) {
				out.write("stored %s %d\n", number, offset)
			})
			continue
		}
		found, err := carryOut(producer, strings.Split(bootstrap, ","), words)
		switch {
		case errors.Is(err, errAbort):
			out.write("abort %s\n", oneLine(err))
		case err != nil:
			out.write("lost %s\n", oneLine(err))
		case words[0] == "poll" || words[0] == "read":
			out.write("records%s\n", listed(found))
		default:
			out.write("done\n")
		}
	}
	return commands.Err()
}

func carryOut(producer transactional, bootstrap, words []string) ([]input, error) {
	switch words[0] {
	case "open":
		words = append(words, "", "")
		return nil, producer.open(bootstrap, words[1], time.Duration(parse(words[2]))*time.Millisecond, words[3], words[4])
	case "begin":
		return nil, producer.begin()
	case "offset":
		return nil, producer.offset(words[1], words[2], int32(parse(words[3])), parse(words[4]))
	case "poll":
		return producer.poll(int(parse(words[1])))
	case "commit":
		return nil, producer.commit()
	case "abort":
		return nil, producer.abort()
	case "read":
		return producer.read(words[1], int32(parse(words[2])), int(parse(words[3])))
	}
	return nil, fmt.Errorf("unknown command %q", words[0])
}

func parse(word string) int64 {
	number, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func listed(found []input) string {
	var text strings.Builder
	for _, each := range found {
		fmt.Fprintf(&text, " %s:%d:%d:%s", each.topic, each.partition, each.offset, hex.EncodeToString(each.value))
	}
	return text.String()
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callTime)
}
