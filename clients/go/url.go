// The URLs that name a deployment's Redis, as delayq's own programs read them.

package delayq

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// hosts is what a kind of URL names: what a host of it is called, where it listens by default, and how the URL looks.
type hosts struct {
	what  string
	port  int
	shape string
}

// dialTimeout is how long a connection may take to be made.
const dialTimeout = time.Second

var kinds = map[string]hosts{
	"sentinel": {"sentinel", 26379, "expected redis+sentinel://host:port,host:port/service"},
	"cluster":  {"node of a cluster", 6379, "expected redis+cluster://host:port,host:port"},
}

var (
	schemeForm  = regexp.MustCompile(`^(rediss?)\+(sentinel|cluster)://`)
	hostForm    = regexp.MustCompile(`^(?:\[([\w.:-]+)\]|([\w.-]+))(?::(\d{1,5}))?$`)
	serviceForm = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	dbForm      = regexp.MustCompile(`^\d{1,5}$`)
)

// ParseURL reads what redis.NewUniversalClient takes: redis+sentinel://[user[:password]@]host[:port],…/service[?db=N],
// redis+cluster://[user[:password]@]host[:port],…, or redis://; rediss for TLS. The login is that of the Redis; sentinels
// that ask for one get it by the options' SentinelUsername and SentinelPassword. go-redis's own repeats are off, and
// a connection is made within a second.
func ParseURL(address string) (*redis.UniversalOptions, error) {
	start := schemeForm.FindStringSubmatch(address)
	if start == nil {
		one, err := redis.ParseURL(address)
		if err == nil && one.Network != "tcp" {
			err = InvalidMessage("only a URL of hosts is read; give redis.NewClient the path of a socket")
		}
		if err != nil {
			return nil, err
		}
		return &redis.UniversalOptions{Addrs: []string{one.Addr}, DB: one.DB, Username: one.Username, Password: one.Password,
			TLSConfig: one.TLSConfig, MaxRetries: -1, DialTimeout: dialTimeout}, nil
	}
	options := &redis.UniversalOptions{MaxRetries: -1, DialTimeout: dialTimeout, IsClusterMode: start[2] == "cluster"}
	if start[1] == "rediss" {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return options, readURL(address[len(start[0]):], kinds[start[2]], options)
}

// readURL reads what is behind the scheme. Its faults are named without user and password.
func readURL(rest string, kind hosts, options *redis.UniversalOptions) (err error) {
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return InvalidMessage("the URL has an @ behind a ?: write %3F for a ? in a password; " + kind.shape)
	}
	at := strings.LastIndex(rest, "@")
	if at >= 0 {
		if options.Username, options.Password, err = login(rest[:at]); err != nil {
			return err
		}
	}
	names, path, _ := strings.Cut(rest[at+1:], "/")
	if options.Addrs, err = kind.addresses(names); err != nil {
		return err
	}
	if options.IsClusterMode {
		switch {
		case path != "" && path != "0":
			return InvalidMessage("the URL names a database; a Redis Cluster has the database 0 alone")
		case strings.Trim(query, "&") != "":
			return InvalidMessage("the URL has a parameter in its query; that of a cluster has none")
		}
		return nil
	}
	switch options.MasterName = path; {
	case path == "":
		return InvalidMessage("the URL names no service: the name of the master in `sentinel monitor` belongs behind the hosts, /service")
	case !serviceForm.MatchString(path):
		return InvalidMessage(fmt.Sprintf("`%s` cannot be the name of a service: A-Z a-z 0-9 . - _ (a database is ?db=N)", path))
	}
	options.DB, err = database(query)
	return err
}

func login(text string) (username, password string, err error) {
	name, secret, _ := strings.Cut(text, ":")
	username, fault := url.PathUnescape(name)
	password, err = url.PathUnescape(secret)
	if fault != nil || err != nil || strings.ContainsAny(text, "/#[]") || !utf8.ValidString(username+password) {
		return "", "", InvalidMessage("the user or password in the URL cannot be read: write @ : / ? # % as %40 %3A %2F %3F %23 %25")
	}
	return username, password, nil
}

func (k hosts) addresses(names string) (addresses []string, err error) {
	if names == "" {
		return nil, InvalidMessage(fmt.Sprintf("the URL names no %s: %s", k.what, k.shape))
	}
	for _, name := range strings.Split(names, ",") {
		parts, port := hostForm.FindStringSubmatch(name), k.port
		if parts != nil && parts[3] != "" {
			port = atoi(parts[3])
		}
		if parts == nil || port < 1 || port > 65535 {
			return nil, InvalidMessage(fmt.Sprintf("`%s` is not a %s; write host:port, an IPv6 address in brackets", name, k.what))
		}
		address := net.JoinHostPort(parts[1]+parts[2], strconv.Itoa(port))
		if contains(addresses, address) {
			return nil, InvalidMessage(fmt.Sprintf("the URL names the %s %s twice", k.what, address))
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func database(query string) (db int, err error) {
	for _, pair := range strings.Split(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		switch {
		case pair == "":
		case key != "db":
			return 0, InvalidMessage("the URL has an unknown parameter in its query; one with sentinels has: db")
		case !dbForm.MatchString(value):
			return 0, InvalidMessage("db is not the number of a database")
		default:
			db = atoi(value)
		}
	}
	return db, nil
}
