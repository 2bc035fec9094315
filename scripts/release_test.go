package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// write writes a file and its folder.
func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
}

// repository is one with the release script, a change log for 0.1.0 and one commit.
func repository(t *testing.T) (folder string, git func(args ...string), release func(version string) string) {
	t.Helper()
	folder = t.TempDir()
	script, err := os.ReadFile("release")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(folder, "scripts"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "scripts/release"), script, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "CHANGELOG.md"), []byte("## [0.1.0] - today\n"), 0o666))
	git = func(args ...string) {
		t.Helper()
		command := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgSign=false"}, args...)...)
		command.Dir = folder
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "first")
	return folder, git, func(version string) string {
		t.Helper()
		out, err := exec.Command(filepath.Join(folder, "scripts/release"), "nfpm", version).CombinedOutput()
		require.Error(t, err)
		if _, err := os.Stat(filepath.Join(folder, "dist")); err == nil {
			t.Error("something was built")
		}
		return string(out)
	}
}

func TestAReleaseOfNoVersionIsRefused(t *testing.T) {
	_, _, release := repository(t)
	for _, version := range []string{"", "0.1.0", "v1", "v1.2", "v01.2.3", "v1.2.3+meta", "v1.2.3-", "v1.2.3/../x", "v1.2.3 x"} {
		assert.Contains(t, release(version), "no version", version)
	}
}

// Go takes no v2.0.0 of a module whose path does not end in /v2.
func TestAVersionThatNeedsAnotherModulePathIsRefused(t *testing.T) {
	_, _, release := repository(t)
	for _, version := range []string{"v2.0.0", "v2.0.0-rc.1", "v10.1.2"} {
		major, _, _ := strings.Cut(version, ".")
		says := version + ": Go needs a module path that ends in /" + major
		assert.Contains(t, release(version), says)
		out, err := exec.Command("./modules", "version", version).CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), says)
	}
}

func TestAReleaseWhosePagesDoNotFitIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ page, text, says string }{
		"the README":            {"README.md", "v0.1.0 is not published yet. Until then, clone.", "README.md says that there is no release yet"},
		"a module's README":     {"contrib/x/README.md", "The module is not published yet.", "contrib/x/README.md says that there is no release yet"},
		"how to verify":         {"SECURITY.md", "There is no release yet, and so no key.", "SECURITY.md says that there is no release yet"},
		"another version":       {"README.md", "go get github.com/quorumlock/go-redlock@v0.0.9", "README.md names go-redlock@v0.0.9, not v0.1.0"},
		"another release of it": {"README.md", "go get github.com/quorumlock/go-redlock@v0.1.0-rc.1", "README.md names go-redlock@v0.1.0-rc.1, not v0.1.0"},
		"another command": {
			"README.md", "go install github.com/quorumlock/go-redlock/cmd/redlock@v0.2.0 # the command",
			"README.md names go-redlock/cmd/redlock@v0.2.0, not v0.1.0",
		},
		"this version": {"README.md", "go get github.com/quorumlock/go-redlock@v0.1.0 # the library", "no key to sign with"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, git, release := repository(t)
			t.Setenv("RELEASE_KEY", "")
			write(t, filepath.Join(folder, c.page), c.text+"\n")
			git("add", ".")
			git("commit", "-qm", "second")
			assert.Contains(t, release("v0.1.0"), c.says)
		})
	}
}

func TestAReleaseOfATreeThatIsNotCommittedIsRefused(t *testing.T) {
	_, git, release := repository(t)
	git("rm", "-q", "--cached", "CHANGELOG.md")
	assert.Contains(t, release("v0.1.0"), "the tree is not clean")
}

func TestAReleaseThatTheChangeLogDoesNotKnowIsRefused(t *testing.T) {
	_, _, release := repository(t)
	assert.Contains(t, release("v0.2.0"), "has no heading ## [0.2.0]")
}

func TestAReleaseWithoutAKeyIsRefused(t *testing.T) {
	_, _, release := repository(t)
	t.Setenv("RELEASE_KEY", "")
	assert.Contains(t, release("v0.1.0"), "no key to sign with")
}

func TestAModuleThatRequiresAnotherVersionIsNotReleased(t *testing.T) {
	folder, git, release := repository(t)
	for _, mod := range []string{"contrib/x/go.mod", "cmd/redlock/go.mod"} { // the last one is looked at first
		write(t, filepath.Join(folder, mod), "module github.com/quorumlock/go-redlock/x\n\nrequire github.com/quorumlock/go-redlock v0.0.9\n")
		git("add", ".")
		git("commit", "-qm", "more")
		assert.Contains(t, release("v0.1.0"), mod+" does not require v0.1.0")
	}
}

func TestAVersionOfAnotherCommitIsNotReleasedAgain(t *testing.T) {
	_, git, release := repository(t)
	git("tag", "v0.1.0")
	git("commit", "-q", "--allow-empty", "-m", "second")
	assert.Contains(t, release("v0.1.0"), "another commit already")
}
