package scripts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// minisign records its arguments. A key and its public key have the same text, which a signature
// contains.
const minisign = `
echo "$*" >>"$MINISIGN_LOG"
does=$1
while [ $# -gt 0 ]; do
  case $1 in
  -s | -p) key=$2 ;;
  -m) file=$2 ;;
  esac
  shift
done
case $does in
-S) cat "$key" "$file" >"$file.minisig" ;;
-V) cat "$key" "$file" | cmp -s - "$file.minisig" ;;
esac
`

// nfpm writes what it was told into the package.
const nfpm = `
while [ $# -gt 0 ]; do
  case $1 in
  -p) kind=$2 ;;
  -t) target=$2 ;;
  esac
  shift
done
echo "$kind $ARCH $VERSION $SOURCE_DATE_EPOCH" >"$target"
`

// signable is a repository of v0.1.0 that builds, with the public key of key. release makes v0.1.0 for
// this platform. It returns what minisign was called with.
func signable(t *testing.T) (folder, key string, git func(args ...string), release func(key string) (says, calls string, err error)) {
	t.Helper()
	folder, git, _ = repository(t)
	const program = "package main\n\nfunc main() {}\n"
	write(t, filepath.Join(folder, "go.mod"), "module github.com/quorumlock/go-redlock\n\ngo 1.25.0\n")
	write(t, filepath.Join(folder, "cmd/redlock/main.go"), program)
	write(t, filepath.Join(folder, "cmd/redlock/go.mod"),
		"module github.com/quorumlock/go-redlock/cmd/redlock\n\ngo 1.25.0\n\nrequire github.com/quorumlock/go-redlock v0.1.0\n")
	write(t, filepath.Join(folder, "cmd/redlock/own.work"), "go 1.25.0\n\nuse .\n\nreplace github.com/quorumlock/go-redlock => ../..\n")
	write(t, filepath.Join(folder, "internal/tools/sbom/main.go"), program)
	compressor, err := os.ReadFile("../internal/tools/gzip/main.go")
	require.NoError(t, err)
	write(t, filepath.Join(folder, "internal/tools/gzip/main.go"), string(compressor))
	write(t, filepath.Join(folder, "LICENSE"), "licence\n")
	write(t, filepath.Join(folder, "NOTICE"), "licences\n")
	write(t, filepath.Join(folder, "Makefile"),
		"man completion:\n\tmkdir -p bin/$@ && echo $@ >bin/$@/redlock.1 && echo $@ >bin/$@/redlock-run.1\n")
	write(t, filepath.Join(folder, "deploy/Dockerfile"), "FROM scratch\n")
	write(t, filepath.Join(folder, ".gitignore"), "dist/\n")
	write(t, filepath.Join(folder, "minisign.pub"), "the pair\n")
	git("add", ".")
	git("commit", "-qm", "second")
	secret := t.TempDir()
	key, log := filepath.Join(secret, "key"), filepath.Join(secret, "log")
	write(t, key, "the pair\n")
	packager := executable(t, "nfpm", nfpm)
	return folder, key, git, func(key string) (says, calls string, err error) {
		t.Helper()
		cmd := exec.Command(filepath.Join(folder, "scripts/release"), packager, "v0.1.0", runtime.GOOS+"/"+runtime.GOARCH)
		cmd.Env = append(os.Environ(), "RELEASE_KEY="+key, "MINISIGN_LOG="+log, "GOWORK=off")
		out, err := cmd.CombinedOutput()
		text, _ := os.ReadFile(log)
		return string(out), string(text), err
	}
}

// withMinisign puts a minisign on the PATH, and a docker that only records its arguments there, too.
func withMinisign(t *testing.T) {
	t.Helper()
	path := os.Getenv("PATH")
	for _, tool := range []string{executable(t, "minisign", minisign), executable(t, "docker", `echo "docker $*" >>"$MINISIGN_LOG"`)} {
		path = filepath.Dir(tool) + string(filepath.ListSeparator) + path
	}
	t.Setenv("PATH", path)
}

func TestTheSumsOfAReleaseAreSignedAndVerified(t *testing.T) {
	withMinisign(t)
	folder, key, _, release := signable(t)
	says, calls, err := release(key)
	require.NoError(t, err, says)

	commit, err := exec.Command("git", "-C", folder, "rev-parse", "HEAD").Output()
	require.NoError(t, err)
	sums := filepath.Join(folder, "dist/v0.1.0/SHA256SUMS")
	image := ""
	if runtime.GOOS == "linux" {
		image = "docker build -q --platform linux/" + runtime.GOARCH + " -t go-redlock/redlock:v0.1.0-" + runtime.GOARCH + " deploy\n"
	}
	require.Equal(t, image+"-S -s "+key+" -m "+sums+" -t go-redlock v0.1.0 "+string(commit)+"-V -q -p minisign.pub -m "+sums+"\n", calls)
	require.FileExists(t, sums+".minisig")
	text, err := os.ReadFile(sums)
	require.NoError(t, err)
	binary := "redlock_v0.1.0_" + runtime.GOOS + "_" + runtime.GOARCH
	files := []string{binary, binary + ".cdx.json", binary + ".tar.gz", "NOTICE", "provenance.json"}
	if runtime.GOOS == "linux" {
		files = append(files, binary+".deb", binary+".rpm")
		date, err := exec.Command("git", "-C", folder, "log", "-1", "--format=%ct").Output()
		require.NoError(t, err)
		packed, err := os.ReadFile(filepath.Join(folder, "dist/v0.1.0", binary+".deb"))
		require.NoError(t, err)
		require.Equal(t, "deb "+runtime.GOARCH+" v0.1.0 "+string(date), string(packed))
	}
	for _, file := range files {
		require.Contains(t, string(text), "  "+file+"\n")
	}
}

func TestAnArchiveHasTheCommandWithWhatBelongsToIt(t *testing.T) {
	withMinisign(t)
	folder, _, _, release := signable(t)
	says, _, err := release("none")
	require.NoError(t, err, says)
	commit, err := exec.Command("git", "-C", folder, "log", "-1", "--format=%ct").Output()
	require.NoError(t, err)
	name := "redlock_v0.1.0_" + runtime.GOOS + "_" + runtime.GOARCH
	packed, err := os.ReadFile(filepath.Join(folder, "dist/v0.1.0", name+".tar.gz"))
	require.NoError(t, err)
	opened, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	modes := map[string]int64{}
	for archive := tar.NewReader(opened); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeXGlobalHeader { // the commit
			continue
		}
		modes[h.Name] = h.Mode
		require.Equal(t, strings.TrimSpace(string(commit)), strconv.FormatInt(h.ModTime.Unix(), 10), h.Name)
		require.Zero(t, h.Uid, h.Name)
	}
	require.Equal(t, map[string]int64{
		name + "/": 0o755, name + "/redlock": 0o755, name + "/LICENSE": 0o644, name + "/NOTICE": 0o644,
		name + "/man/redlock.1": 0o644, name + "/man/redlock-run.1": 0o644,
		name + "/completion/redlock.1": 0o644, name + "/completion/redlock-run.1": 0o644,
	}, modes)

	require.NoError(t, os.RemoveAll(filepath.Join(folder, "dist")))
	t.Setenv("LC_ALL", "en_US.UTF-8") // where - counts for less in the order of names
	t.Setenv("TZ", "Asia/Tokyo")
	says, _, err = release("none")
	require.NoError(t, err, says)
	again, err := os.ReadFile(filepath.Join(folder, "dist/v0.1.0", name+".tar.gz"))
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256(packed), sha256.Sum256(again))
}

func TestASignatureThatDoesNotFitThePublicKeyIsAnError(t *testing.T) {
	withMinisign(t)
	_, key, _, release := signable(t)
	write(t, key, "another pair\n")
	says, _, err := release(key)
	require.Error(t, err)
	require.Contains(t, says, "the signature does not fit minisign.pub")
}

func TestAReleaseToCompareIsNotSigned(t *testing.T) {
	withMinisign(t)
	folder, _, _, release := signable(t)
	says, calls, err := release("none")
	require.NoError(t, err, says)
	require.Empty(t, calls)
	require.FileExists(t, filepath.Join(folder, "dist/v0.1.0/SHA256SUMS"))
	require.NoFileExists(t, filepath.Join(folder, "dist/v0.1.0/SHA256SUMS.minisig"))
}

func TestWithoutWhatSigningNeedsNothingIsBuilt(t *testing.T) {
	folder, key, git, release := signable(t)
	refused := func(key, words string) {
		t.Helper()
		says, _, err := release(key)
		require.Error(t, err)
		require.Equal(t, "release: "+words+"\n", says)
		require.NoDirExists(t, filepath.Join(folder, "dist"))
	}
	path := os.Getenv("PATH")
	tools := t.TempDir() // a PATH without minisign
	for _, tool := range []string{"bash", "dirname", "git", "grep"} {
		at, err := exec.LookPath(tool)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(at, filepath.Join(tools, tool)))
	}
	t.Setenv("PATH", tools)
	refused(key, "there is no minisign to sign with")
	t.Setenv("PATH", path)
	withMinisign(t)
	refused(key+"-elsewhere", "the key in RELEASE_KEY cannot be read")

	git("rm", "-q", "minisign.pub")
	git("commit", "-qm", "third")
	refused(key, "there is no minisign.pub, the public key")
}
