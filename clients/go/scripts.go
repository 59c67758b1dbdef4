package delayq

import (
	"crypto/sha1"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// A copy of the repository's lua/ in a module that was packed (clients/package.sh); in the repository itself there is
// none.
//
//go:embed lua
var packed embed.FS

const include = "--# include "

// script is a Lua text, and the SHA-1 of it in hex: its name in EVALSHA.
type script struct{ source, sha string }

// assemble puts one script together: an include line stands for the text of the files that it names.
func assemble(folder fs.FS, verb string) (script, error) {
	file, err := fs.ReadFile(folder, verb+".lua")
	if err != nil {
		return script{}, err
	}
	var source strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(string(file), "\n"), "\n") {
		names, found := strings.CutPrefix(line, include)
		if !found {
			source.WriteString(line + "\n")
			continue
		}
		for name := range strings.SplitSeq(names, ", ") {
			part, err := fs.ReadFile(folder, "lib/"+name+".lua")
			if err != nil {
				return script{}, err
			}
			source.Write(part)
		}
		source.WriteString("\n")
	}
	return script{source.String(), fmt.Sprintf("%x", sha1.Sum([]byte(source.String())))}, nil
}

// scriptFolder finds the scripts: packed with this module, or in the repository that it is developed in.
func scriptFolder() (fs.FS, error) {
	if folder, err := fs.Sub(packed, "lua"); err == nil {
		if _, err := fs.Stat(folder, "put.lua"); err == nil {
			return folder, nil
		}
	}
	_, here, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(here), "..", "..", "lua")
	if _, err := os.Stat(filepath.Join(folder, "put.lua")); err != nil {
		return nil, fmt.Errorf("delayq's Lua files are neither packed with this module nor in the repository: %w", err)
	}
	return os.DirFS(folder), nil
}

var known sync.Map

// published gives a script as it is published.
func published(verb string) (script, error) {
	if found, ok := known.Load(verb); ok {
		return found.(script), nil
	}
	folder, err := scriptFolder()
	if err != nil {
		return script{}, err
	}
	found, err := assemble(folder, verb)
	if err == nil {
		known.Store(verb, found)
	}
	return found, err
}
