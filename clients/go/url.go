// Parses the Redis URLs of delayq's programs.

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

const dialTimeout = time.Second

var (
	schemeForm  = regexp.MustCompile(`^(rediss?)(?:\+(sentinel|cluster))?://`)
	socketForm  = regexp.MustCompile(`^((?:redis\+)?unix://)?/(?:[^/]|$)`)
	hostForm    = regexp.MustCompile(`^(?:\[([\w.:-]+)\]|([\w.-]+))(?::(\d{1,5}))?$`)
	serviceForm = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	dbForm      = regexp.MustCompile(`^\d{1,5}$`)
)

// ParseURL parses redis://[user[:password]@]host[:port][/db], redis+sentinel://[user[:password]@]host[:port],…/service[?db=N],
// redis+cluster://[user[:password]@]host[:port],… or unix:///path, with rediss for TLS, into options of Connect. The login is
// for Redis; set SentinelUsername and SentinelPassword for Sentinels. Retries of go-redis are off, and the connect timeout is
// a second.
func ParseURL(address string) (*redis.UniversalOptions, error) {
	options := &redis.UniversalOptions{MaxRetries: -1, DialTimeout: dialTimeout}
	if socket := socketForm.FindStringSubmatch(address); socket != nil {
		return options, readSocket(address[len(socket[1]):], options)
	}
	start := schemeForm.FindStringSubmatch(address)
	if start == nil {
		return nil, InvalidMessage("the URL has another scheme than redis, rediss, unix, redis+sentinel or redis+cluster: " + urlForms["single"].shape)
	}
	options.IsClusterMode = start[2] == "cluster"
	if start[1] == "rediss" {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return options, readURL(address[len(start[0]):], start[2], options)
}

// readSocket parses the path of a socket, with login and database in the query.
func readSocket(text string, options *redis.UniversalOptions) error {
	path, query, _ := strings.Cut(text, "?")
	said, err := parameters(query, urlForms["socket"].query)
	if err != nil {
		return err
	}
	if path, err = url.PathUnescape(path); err != nil {
		return InvalidMessage("the path of the socket in the URL cannot be read: write % as %25")
	}
	options.Addrs, options.Username, options.Password = []string{path}, said["user"], said["pass"]
	options.DB, err = database(said["db"])
	return err
}

// readURL parses the part after the scheme. Errors contain neither user nor password.
func readURL(rest, scheme string, options *redis.UniversalOptions) (err error) {
	kind := urlForms["single"]
	if scheme != "" {
		kind = urlForms[scheme]
	}
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
	if scheme == "" {
		if len(options.Addrs) > 1 {
			return InvalidMessage(fmt.Sprintf("the URL names %d hosts: write redis+sentinel:// or redis+cluster://", len(options.Addrs)))
		}
		options.DB, err = ofOne(path, query)
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
		return InvalidMessage(fmt.Sprintf("`%.80s` cannot be the name of a service: A-Z a-z 0-9 . - _ (a database is ?db=N)", path))
	}
	said, err := parameters(query, kind.query)
	if err != nil {
		return err
	}
	options.DB, err = database(said["db"])
	return err
}

// ofOne returns the database, /N or ?db=N.
func ofOne(path, query string) (db int, err error) {
	said, err := parameters(query, urlForms["single"].query)
	if err != nil {
		return 0, err
	}
	if path == "" {
		return database(said["db"])
	}
	db, err = database(path)
	if other, fault := database(said["db"]); said["db"] != "" && (fault != nil || other != db) {
		return 0, InvalidMessage("the URL names two databases, /N and ?db=N")
	}
	return db, err
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

func (k urlForm) addresses(names string) (addresses []string, err error) {
	if names == "" {
		return nil, InvalidMessage(fmt.Sprintf("the URL names no %s: %s", k.what, k.shape))
	}
	for _, name := range strings.Split(names, ",") {
		parts, port := hostForm.FindStringSubmatch(name), k.port
		if parts != nil && parts[3] != "" {
			port = atoi(parts[3])
		}
		if parts == nil || port < 1 || port > 65535 {
			return nil, InvalidMessage(fmt.Sprintf("`%.80s` is not a %s; write host:port, an IPv6 address in brackets", name, k.what))
		}
		address := net.JoinHostPort(parts[1]+parts[2], strconv.Itoa(port))
		if contains(addresses, address) {
			return nil, InvalidMessage(fmt.Sprintf("the URL names the %s %s twice", k.what, address))
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func database(text string) (int, error) {
	if text != "" && !dbForm.MatchString(text) {
		return 0, InvalidMessage("db is not the number of a database: expected /N or ?db=N")
	}
	return atoi(text), nil
}

// parameters parses a query, and refuses unknown parameters.
func parameters(query string, known []string) (map[string]string, error) {
	said := map[string]string{}
	for _, pair := range strings.Split(query, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		if !contains(known, key) {
			return nil, InvalidMessage("the URL has an unknown parameter in its query; one of its kind has: " + strings.Join(known, ", "))
		}
		if _, is := said[key]; is {
			return nil, InvalidMessage("the URL has " + key + " twice in its query")
		}
		text, err := url.PathUnescape(value)
		if err != nil || !utf8.ValidString(text) {
			return nil, InvalidMessage(key + " in the URL cannot be read: write % as %25")
		}
		said[key] = text
	}
	return said, nil
}
