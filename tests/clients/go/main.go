// Third-party clients, each behind the same commands, so that one test can judge them all:
//
//	clients produce LIBRARY BOOTSTRAP TOPIC CODEC COUNT RATE
//	clients consume LIBRARY BOOTSTRAP TOPIC GROUP
//	clients transactions LIBRARY BOOTSTRAP
//
// `produce` sends COUNT records, RATE a second, and writes a line for each acknowledged one: partition, offset, value.
// `consume` is a member of a group; it writes partition, offset, key, header and value of each record, then commits it.
// `transactions` carries out commands (see the function of that name).
// All end gracefully when their standard input ends. An error on which a library gives up goes to standard error
// and makes the exit code 1.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A library under test. Both calls return when their work is done, and call back from any goroutine.
type library interface {
	produce(bootstrap []string, topic, codec string, values <-chan string, acknowledged func(int32, int64, string)) error
	consume(bootstrap []string, topic, group string, stop <-chan struct{}, read func(record)) error
}

type record struct {
	partition          int32
	offset             int64
	key, header, value string
}

const headerName = "number"

var libraries = map[string]library{"franz-go": franz{}, "sarama": saramaClient{}, "kafka-go": segmentio{}}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 3 && arguments[0] == "transactions" {
		return transactions(arguments[1], arguments[2])
	}
	if len(arguments) < 5 {
		return fmt.Errorf("usage: clients produce|consume LIBRARY BOOTSTRAP TOPIC ...")
	}
	chosen, known := libraries[arguments[1]]
	if !known {
		return fmt.Errorf("unknown library %q", arguments[1])
	}
	bootstrap, topic := strings.Split(arguments[2], ","), arguments[3]
	out, stop := newLines(), inputEnds()
	defer out.close()
	if arguments[0] == "consume" {
		return chosen.consume(bootstrap, topic, arguments[4], stop, func(r record) {
			out.write("%d %d %s %s %s\n", r.partition, r.offset, r.key, r.header, r.value)
		})
	}
	count, err := strconv.Atoi(arguments[5])
	if err != nil {
		return err
	}
	rate, err := strconv.Atoi(arguments[6])
	if err != nil {
		return err
	}
	values := paced(count, rate, stop)
	return chosen.produce(bootstrap, topic, arguments[4], values, func(partition int32, offset int64, value string) {
		out.write("%d %d %s\n", partition, offset, value)
	})
}

// The numbers from 0 on, at the times at which they are due.
func paced(count, rate int, stop <-chan struct{}) <-chan string {
	values := make(chan string)
	go func() {
		defer close(values)
		begin := time.Now()
		for number := 0; number < count; number++ {
			due := begin.Add(time.Duration(number) * time.Second / time.Duration(rate))
			select {
			case <-time.After(time.Until(due)):
				values <- strconv.Itoa(number)
			case <-stop:
				return
			}
		}
	}()
	return values
}

func inputEnds() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		}
		close(ended)
	}()
	return ended
}

// Standard output, by whole lines that are flushed at once: their reader may be about to kill a broker.
type lines struct {
	mutex sync.Mutex
	out   *bufio.Writer
}

func newLines() *lines { return &lines{out: bufio.NewWriter(os.Stdout)} }

func (l *lines) write(format string, fields ...any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	fmt.Fprintf(l.out, format, fields...)
	l.out.Flush()
}

func (l *lines) close() { l.out.Flush() }
