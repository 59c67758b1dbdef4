// Assembles the scripts of lua/ from the files and the functions included.

package delayq

import (
	"embed"
	"io/fs"
	"regexp"
	"strings"

	lent "github.com/delayq/delayq/clients/go/internal/packed"
	"github.com/redis/go-redis/v9"
)

// A copy of the repository's lua/, so that a plain `go get` brings it: `go generate` brings it up to date.
//
//go:generate sh -c "rm -rf lua && cp -R ../../lua lua"
//go:embed lua
var packed embed.FS

var verbs = strings.Fields(`ack bury cancel cancel_group claim configure count describe dictionary extend grow hold list list_group
	overview pause_group paused_groups peek promote pump purge put release replay reschedule reserve shift_group`)

var include = regexp.MustCompile(`(?m)^--# include (.*)$`)

// script is a script with the source: in a pipeline, Script.Load of go-redis 9.23 forgets the hash.
type script struct {
	*redis.Script
	source string
}

func init() {
	lent.Source = func(verb string) (string, error) {
		script, err := assemble(packed, verb)
		return script.source, err
	}
}

// assemble replaces the include lines of a script by the named files.
func assemble(folder fs.FS, verb string) (script, error) {
	text, err := fs.ReadFile(folder, "lua/"+verb+".lua")
	source := strings.TrimSuffix(string(text), "\n") + "\n"
	source = include.ReplaceAllStringFunc(source, func(line string) (parts string) {
		for _, name := range strings.Split(include.FindStringSubmatch(line)[1], ", ") {
			part, fault := fs.ReadFile(folder, "lua/lib/"+name+".lua")
			parts, err = parts+string(part), first(err, fault)
		}
		return parts
	})
	return script{redis.NewScript(source), source}, err
}
