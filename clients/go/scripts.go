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

// A copy of the repository's lua/ in a module that was packed (clients/package.sh); in the repository itself there is none.
//
//go:embed lua
var packed embed.FS

var include = regexp.MustCompile(`(?m)^--# include (.*)$`)

// luaFolder finds the scripts: packed with this module, or in the repository that it is developed in.
func luaFolder() fs.FS {
	folder, err := fs.Sub(packed, "lua")
	if _, missing := fs.Stat(folder, "put.lua"); err != nil || missing != nil {
		_, here, _, _ := runtime.Caller(0)
		return os.DirFS(filepath.Join(here, "../../../lua"))
	}
	return folder
}

// published puts the scripts together that a client calls.
func published() (scripts map[string]*redis.Script, err error) {
	scripts = map[string]*redis.Script{}
	for _, verb := range strings.Fields("ack bury cancel describe dictionary extend grow put release reschedule reserve") {
		script, fault := assemble(luaFolder(), verb)
		scripts[verb], err = script, first(err, fault)
	}
	return scripts, err
}

// assemble puts one script together: an include line stands for the texts of the files that it names.
func assemble(folder fs.FS, verb string) (*redis.Script, error) {
	text, err := fs.ReadFile(folder, verb+".lua")
	source := include.ReplaceAllStringFunc(strings.TrimSuffix(string(text), "\n")+"\n", func(line string) (parts string) {
		for _, name := range strings.Split(include.FindStringSubmatch(line)[1], ", ") {
			part, fault := fs.ReadFile(folder, "lib/"+name+".lua")
			parts, err = parts+string(part), first(err, fault)
		}
		return parts
	})
	return redis.NewScript(source), err
}
