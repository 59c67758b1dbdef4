// The module as users get it: copied, built with a `replace`, running the README's program.

package delayq

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestTheScriptsAreThoseOfTheRepository(t *testing.T) {
	files := func(folder fs.FS) map[string]string {
		texts := map[string]string{}
		_ = fs.WalkDir(folder, "lua", func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				texts[path] = string(must(fs.ReadFile(folder, path)))
			}
			return err
		})
		return texts
	}
	ours, theirs := files(packed), files(os.DirFS("../.."))
	if fmt.Sprint(ours) != fmt.Sprint(theirs) || len(ours) < 20 {
		t.Fatal("lua/ is not the repository's: run `go generate` in clients/go")
	}
}

func TestTheREADMEsFirstProgramDeliversItsMessageFromAReplacedModuleAndEndsBySIGTERM(t *testing.T) {
	timed(t, socket, "dq")
	user := t.TempDir()
	run := func(name string, args ...string) *exec.Cmd {
		command := exec.Command(name, args...)
		command.Dir, command.Stderr = user, os.Stderr
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "REDIS_URL=unix://"+socket)
		return command
	}
	program := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindSubmatch(must(os.ReadFile("README.md")))[1]
	must(0, os.WriteFile(filepath.Join(user, "main.go"), program, 0o600))
	must(run("go", "mod", "init", "user").Output())
	install := regexp.MustCompile("(?m)^    (go mod edit -replace .*)$").FindSubmatch(must(os.ReadFile("README.md")))[1]
	line := strings.ReplaceAll(string(install), "../delayq/clients/go", must(filepath.Abs(".")))
	must(run("sh", "-c", line).Output())
	must(run("go", "build", "-o", "program", ".").Output())

	running := run("./program")
	output := bufio.NewScanner(must(running.StdoutPipe()))
	must(0, running.Start())
	if output.Scan(); output.Text() != `go-17 is due: {"order":17}` {
		t.Fatal(output.Text())
	}
	must(0, running.Process.Signal(syscall.SIGTERM))
	if err := running.Wait(); err != nil {
		t.Fatal(err)
	}
	client := must(New(connect(t), "dq"))
	if now := must(client.Topic("go-orders").Count(context.Background())); now.Delivered != 1 {
		t.Fatal(now)
	}
}
