// The scripts: the files of lua/, put together with the functions they include.

package delayq

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A copy of the repository's lua/ in a module that was packed (clients/package.sh); in the repository itself
// there is none.
//
//go:embed lua
var packed embed.FS

// verbs are the scripts that a client calls.
var verbs = strings.Fields("ack bury cancel describe dictionary extend grow put release reschedule reserve")

var include = regexp.MustCompile(`(?m)^--# include (.*)$`)

// luaFolder has lua/: packed with this module, or in the repository that it is developed in.
func luaFolder() fs.FS {
	if _, missing := fs.Stat(packed, "lua/put.lua"); missing == nil {
		return packed
	}
	_, here, _, _ := runtime.Caller(0)
	return os.DirFS(filepath.Join(here, "../../.."))
}

// assemble puts one script together: an include line stands for the texts of the files that it names.
func assemble(folder fs.FS, verb string) (*redis.Script, error) {
	text, err := fs.ReadFile(folder, "lua/"+verb+".lua")
	source := strings.TrimSuffix(string(text), "\n") + "\n"
	source = include.ReplaceAllStringFunc(source, func(line string) (parts string) {
		for _, name := range strings.Split(include.FindStringSubmatch(line)[1], ", ") {
			part, fault := fs.ReadFile(folder, "lua/lib/"+name+".lua")
			parts, err = parts+string(part), first(err, fault)
		}
		return parts
	})
	return redis.NewScript(source), err
}
