package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sns"
)

// Takes orders from standard input. Here a change is made when its line is read: all is handed over through now.
func main() {
	topic, name := os.Args[1], fmt.Sprintf("%x", rand.Uint64())
	if len(os.Args) > 2 {
		name = os.Args[2]
	}
	region := config.WithRegion(strings.Split(topic, ":")[3])
	within := config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(5 * time.Second))
	settings, err := config.LoadDefaultConfig(context.Background(), region, within, config.WithRetryMaxAttempts(1))
	if err != nil {
		log.Fatal(err)
	}
	now := func() *time.Time { now := time.Now(); return &now }
	publisher := NewPublisher(sns.NewFromConfig(settings), topic, name, now)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		obey(publisher, strings.TrimSpace(lines.Text()))
	}
	time.AfterFunc(30*time.Second, func() { log.Fatal("not all sent in 30 s") })
	if _, err := publisher.Close(); err != nil {
		log.Fatal(err)
	}
}

func obey(publisher *Publisher, line string) {
	var recordType, key string
	var version, number int64
	var seconds float64
	var err error
	is := func(order string, words ...any) bool {
		read, _ := fmt.Sscanf(line, order, words...)
		return read == len(words)
	}
	switch {
	case line == "":
		return
	case is("wait %g", &seconds):
		time.Sleep(time.Duration(seconds * float64(time.Second)))
		return
	case is("changed %s %s %d", &recordType, &key, &version):
		number, err = publisher.Changed(recordType, key, version)
	case is("deleted %s %s %d", &recordType, &key, &version):
		number, err = publisher.Deleted(recordType, key, version)
	case is("reload %s", &recordType):
		number, err = publisher.Reload(recordType)
	default:
		fmt.Fprintln(os.Stderr, "orders: changed|deleted TYPE KEY VERSION, reload TYPE, wait SECONDS")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("announced", number)
}
