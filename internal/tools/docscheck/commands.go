package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// checkCommands checks that the targets of make, the subcommands and flags of redlock, and the
// folders and scripts in the pages' commands exist. It counts the commands.
func checkCommands(pages []*page) (int, []finding, error) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		return 0, nil, err
	}
	h, err := newHelp()
	if err != nil {
		return 0, nil, err
	}
	defer h.close()
	c := commands{targets: targetsOf(string(makefile)), help: h.of}
	for _, p := range pages {
		for _, t := range commandsOf(p) {
			if wrong := c.check(t.text); wrong != "" {
				c.found = append(c.found, finding{p.path, t.line, wrong})
			}
		}
	}
	return c.count, c.found, nil
}

// commandsOf returns the lines that a reader may type: in blocks for a shell, after the prompt if
// there is one; in blocks without a language; and in spans.
func commandsOf(p *page) []text {
	lines := slices.Clone(p.spans)
	for _, b := range p.blocks {
		if !slices.Contains([]string{"sh", "shell", "bash", "console", ""}, b.language) {
			continue
		}
		body := strings.ReplaceAll(b.text, "\\\n", "  ")
		prompts := strings.HasPrefix(body, "$ ") || strings.Contains(body, "\n$ ")
		for i, line := range strings.Split(body, "\n") {
			line, typed := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if typed || !prompts {
				lines = append(lines, text{b.line + i, line})
			}
		}
	}
	return lines
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)

func targetsOf(makefile string) map[string]bool {
	targets := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(makefile, -1) {
		targets[m[1]] = true
	}
	return targets
}

type commands struct {
	targets map[string]bool
	help    func(subcommand string) (string, bool)
	count   int
	found   []finding
}

var (
	between    = regexp.MustCompile(`\s*(?:&&|\|\||[;|])\s+`)
	assignment = regexp.MustCompile(`^[A-Za-z_]+=`)
	word       = regexp.MustCompile(`^[a-z][a-z-]*$`)
	flagName   = regexp.MustCompile(`^--[a-z][a-z-]*`)
)

// check returns what is wrong with a line, or "".
func (c *commands) check(line string) string {
	line, _, _ = strings.Cut(line, " #")
	for _, part := range between.Split(line, -1) {
		words := strings.Fields(part)
		for len(words) > 0 && assignment.MatchString(words[0]) {
			words = words[1:]
		}
		if wrong := c.one(words); wrong != "" {
			return wrong
		}
	}
	return ""
}

func (c *commands) one(words []string) string {
	if len(words) < 2 {
		if len(words) == 1 && strings.HasPrefix(words[0], "scripts/") {
			return c.path(words[0])
		}
		return ""
	}
	switch {
	case words[0] == "make":
		return c.make(words[1:])
	case words[0] == "redlock" || words[0] == "bin/redlock" || words[0] == "./redlock":
		return c.redlock(words[1:])
	case words[0] == "go" && len(words) > 3 && words[1] == "run" && words[2] == "./cmd/redlock":
		return c.redlock(words[3:])
	case words[0] == "go" && slices.Contains([]string{"run", "test", "build", "install", "vet"}, words[1]):
		for _, w := range words[2:] {
			if strings.HasPrefix(w, "./") {
				return c.path(strings.TrimSuffix(w, "..."))
			}
		}
	case strings.HasPrefix(words[0], "scripts/"):
		return c.path(words[0])
	}
	return ""
}

func (c *commands) path(p string) string {
	c.count++
	if _, err := os.Stat(filepath.FromSlash(p)); err != nil {
		return "there is no " + p
	}
	return ""
}

func (c *commands) make(words []string) string {
	for _, w := range words {
		if !word.MatchString(w) {
			continue
		}
		c.count++
		if !c.targets[w] {
			return "make has no target " + w
		}
	}
	return ""
}

func (c *commands) redlock(words []string) string {
	if words[0] == "help" {
		words = words[1:]
	}
	if len(words) == 0 || !word.MatchString(words[0]) {
		return "" // the whole command, or a placeholder
	}
	c.count++
	help, ok := c.help(words[0])
	if !ok {
		return "redlock has no subcommand " + words[0]
	}
	for _, w := range words[1:] {
		if w == "--" {
			break
		}
		if f := flagName.FindString(strings.TrimLeft(w, "[")); f != "" && !hasWord(help, f) {
			return fmt.Sprintf("redlock %s has no flag %s", words[0], f)
		}
	}
	return ""
}

// hasWord reports whether text has a flag that is not just the beginning of another.
func hasWord(text, flag string) bool {
	return regexp.MustCompile(regexp.QuoteMeta(flag) + `(?:[^a-z-]|$)`).MatchString(text)
}

// help reads the help of the command, which it builds for that.
type help struct {
	folder, binary string
	known          map[string]string
}

func newHelp() (*help, error) {
	folder, err := os.MkdirTemp("", "docscheck-")
	if err != nil {
		return nil, err
	}
	h := &help{folder: folder, binary: filepath.Join(folder, "redlock"), known: map[string]string{}}
	if out, err := exec.Command("go", "build", "-o", h.binary, "./cmd/redlock").CombinedOutput(); err != nil {
		h.close()
		return nil, fmt.Errorf("go build ./cmd/redlock: %w: %s", err, out)
	}
	return h, nil
}

func (h *help) close() { _ = os.RemoveAll(h.folder) }

// of returns the help of a subcommand.
func (h *help) of(subcommand string) (string, bool) {
	if _, ok := h.known[subcommand]; !ok {
		out, err := exec.Command(h.binary, subcommand, "-h").CombinedOutput()
		if err != nil {
			out = nil
		}
		h.known[subcommand] = string(out)
	}
	return h.known[subcommand], h.known[subcommand] != ""
}
