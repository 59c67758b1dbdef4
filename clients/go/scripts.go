package delayq

import (
	"crypto/sha1"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
)

// A copy of the repository's lua/ in a module that was packed (clients/package.sh); in the repository itself there is none.
//
//go:embed lua
var packed embed.FS

var include = regexp.MustCompile(`(?m)^--# include (.*)$`)

// script is a Lua text, and the SHA-1 of it in hex: its name in EVALSHA.
type script struct{ source, sha string }

// assemble puts one script together: an include line stands for the text of the files that it names.
func assemble(folder fs.FS, verb string) (script, error) {
	file, err := fs.ReadFile(folder, verb+".lua")
	source := include.ReplaceAllStringFunc(strings.TrimSuffix(string(file), "\n")+"\n", func(line string) (whole string) {
		for _, name := range strings.Split(include.FindStringSubmatch(line)[1], ", ") {
			part, fault := fs.ReadFile(folder, "lib/"+name+".lua")
			if fault != nil {
				err = fault
			}
			whole += string(part)
		}
		return whole
	})
	return script{source, fmt.Sprintf("%x", sha1.Sum([]byte(source)))}, err
}

// luaFolder finds the scripts: packed with this module, or in the repository that it is developed in.
func luaFolder() fs.FS {
	if _, err := packed.Open("lua/put.lua"); err == nil {
		folder, _ := fs.Sub(packed, "lua")
		return folder
	}
	_, here, _, _ := runtime.Caller(0)
	return os.DirFS(filepath.Join(filepath.Dir(here), "..", "..", "lua"))
}

var known sync.Map

// published gives a script as it is published.
func published(verb string) (script, error) {
	if found, ok := known.Load(verb); ok {
		return found.(script), nil
	}
	found, err := assemble(luaFolder(), verb)
	if err == nil {
		known.Store(verb, found)
	}
	return found, err
}
