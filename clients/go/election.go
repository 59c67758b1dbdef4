// The election of a master: the Redis that a majority of the configured sentinels names.
//
// A sentinel that was cut off, or that watches another Redis under the same name, is outvoted, regardless of the epoch of its
// configuration. As long as no master is known, the answering sentinels elect the first one.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Extra time, after the first answer, to wait for the answers of other sentinels.
const moreAnswers = 250 * time.Millisecond

// vote is the answer of a sentinel: a master, or none and the reason.
type vote struct{ master, text string }

// elect asks all sentinels at once, and returns the master. Callers that came before the questions share an election.
func (s *sentinels) elect() (master string, err error) {
	came := time.Now()
	s.electing.Lock()
	defer s.electing.Unlock()
	if s.began.Before(came) {
		s.began = time.Now()
		votes := s.votes()
		s.mu.Lock()
		s.elected = s.begin(votes)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.master, s.elected
}

// votes returns the answer of each sentinel, until further answers would not change the result.
func (s *sentinels) votes() []vote {
	size := len(s.options.Addrs)
	votes, answered := make([]vote, size), make(chan func(), size)
	for n, address := range s.options.Addrs {
		votes[n].text = "sentinel " + address + ": no reply"
		go func(n int, address string) {
			one := s.ask(address)
			answered <- func() { votes[n] = one }
		}(n, address)
	}
	enough := time.NewTimer(time.Minute) // each answers within seconds, or fails
	defer enough.Stop()
	for left := size; left > 0 && majority(votes, size) == ""; left-- {
		select {
		case note := <-answered:
			if note(); count(votes) == 1 {
				enough.Reset(moreAnswers)
			}
		case <-enough.C:
			left = 0
		}
	}
	return votes
}

func (s *sentinels) ask(address string) vote {
	ctx, end := context.WithTimeout(context.Background(), dialTimeout)
	defer end()
	master, epoch, err := s.named(ctx, address)
	var timeout net.Error
	switch text := "sentinel " + address; {
	case err == nil:
		return vote{master, fmt.Sprintf("%s names %s by epoch %s", text, master, epoch)}
	case errors.Is(err, redis.Nil):
		return vote{text: text + ": no master named " + s.options.MasterName}
	case errors.As(err, &timeout) && timeout.Timeout():
		return vote{text: text + ": no reply"}
	default:
		return vote{text: text + ": " + err.Error()}
	}
}

// named returns the master that a sentinel names, and the epoch of the sentinel's configuration.
func (s *sentinels) named(ctx context.Context, address string) (master, epoch string, err error) {
	connection, err := s.dialer(ctx, "tcp", address) // go-redis would dial again and again
	if err != nil {
		return "", "", err
	}
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true, MaxRetries: -1, DisableIdentity: true,
		Username: s.options.SentinelUsername, Password: s.options.SentinelPassword,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return connection, nil }})
	defer connection.Close()
	defer sentinel.Close()
	// While the sentinel leads a failover, only the first command names the new master.
	place, err := sentinel.GetMasterAddrByName(ctx, s.options.MasterName).Result()
	if err != nil {
		return "", "", err
	}
	state, err := sentinel.Master(ctx, s.options.MasterName).Result()
	return net.JoinHostPort(place[0], place[1]), state["config-epoch"], err
}

// begin begins the term of an elected master, and ends the connections to the former master before. Requires the mutex.
func (s *sentinels) begin(votes []vote) error {
	heard, master := count(votes), majority(votes, len(votes))
	if master == "" && s.master == "" {
		master = majority(votes, heard)
	}
	if master != "" {
		s.master = master
		for one := range s.open {
			if one.master != master {
				one.cut()
			}
		}
	}
	if heard > 0 && s.master != "" {
		return nil
	}
	who, texts := "the sentinels do not agree on the", []string{}
	if heard == 0 {
		who = "no sentinel names the"
	}
	for _, one := range votes {
		texts = append(texts, one.text)
	}
	return fmt.Errorf("cannot reach Redis: %s master of %s: %s", who, s.options.MasterName, strings.Join(texts, "; "))
}

// count returns the number of sentinels that name a master.
func count(votes []vote) (heard int) {
	for _, one := range votes {
		if one.master != "" {
			heard++
		}
	}
	return heard
}

// majority returns the master that more than half of so many sentinels name; "" if there is none.
func majority(votes []vote, of int) string {
	counts := map[string]int{}
	for _, one := range votes {
		if counts[one.master]++; one.master != "" && counts[one.master] > of/2 {
			return one.master
		}
	}
	return ""
}
