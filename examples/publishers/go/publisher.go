// A publisher of announcements as docs/publishing.md describes it; main.go is its command line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sns"
)

// Publisher numbers what any goroutine hands over and sends it in order. A call returns the number, once it is sent.
type Publisher struct {
	client      *sns.Client       // one that waits for seconds at most and does not try again: say does
	topic, name string            // the name is new with each process
	through     func() *time.Time // through when every change at the source was handed over; nil: not known yet
	turn        sync.Mutex        // a number and its place are taken together
	last        int64
	ahead       chan struct{} // closed once all that was handed over is sent
	signedOff   bool
}

func NewPublisher(client *sns.Client, topic, name string, through func() *time.Time) *Publisher {
	p := &Publisher{client: client, topic: topic, name: name, through: through, ahead: make(chan struct{})}
	close(p.ahead)
	go p.beat()
	return p
}

func (p *Publisher) Changed(recordType, key string, version int64) (int64, error) {
	return p.say(map[string]any{"kind": "CHANGED", "recordType": recordType, "key": key, "version": fmt.Sprint(version)})
}
func (p *Publisher) Deleted(recordType, key string, version int64) (int64, error) {
	return p.say(map[string]any{"kind": "DELETED", "recordType": recordType, "key": key, "version": fmt.Sprint(version)})
}
func (p *Publisher) Reload(recordType string) (int64, error) {
	return p.say(map[string]any{"kind": "RELOAD", "recordType": recordType})
}

// Close signs off once all is sent.
func (p *Publisher) Close() (int64, error) {
	return p.say(map[string]any{"kind": "HEARTBEAT", "ingestedThrough": p.through(), "signingOff": true})
}

func (p *Publisher) beat() { // it takes its place like the others: it must not overtake what it vouches for
	for err := error(nil); err == nil; time.Sleep(5 * time.Second) {
		_, err = p.say(map[string]any{"kind": "HEARTBEAT", "ingestedThrough": p.through()})
	}
}

func (p *Publisher) say(said map[string]any) (int64, error) {
	p.turn.Lock()
	if p.signedOff {
		p.turn.Unlock()
		return 0, errors.New("this publisher has signed off")
	}
	if said["kind"] != "HEARTBEAT" {
		p.last++ // a heartbeat repeats the last one
		said["ingestedAt"] = time.Now()
	}
	number, before, sent := p.last, p.ahead, make(chan struct{})
	p.ahead, p.signedOff = sent, said["signingOff"] == true
	p.turn.Unlock()
	defer close(sent)
	said["publisher"], said["sequence"] = p.name, fmt.Sprint(number) // 64 bits: a string
	encoded, _ := json.Marshal(said)
	message := string(encoded)
	for <-before; ; time.Sleep(time.Second) {
		_, err := p.client.Publish(context.Background(), &sns.PublishInput{TopicArn: &p.topic, Message: &message})
		if err == nil {
			return number, nil
		}
		log.Printf("number %d goes again in a second: %v", number, err)
	}
}
