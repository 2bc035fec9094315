package deployed

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

const (
	manifests = "../../deploy/kubernetes"
	tlsConf   = "overlays/tls/servers/tls.conf"
	guardConf = "overlays/guard/servers/guard.conf"
	nodesFile = "/etc/redlock/nodes/nodes"
	caFile    = "/etc/redlock/ca/ca.crt"
)

// document is what these tests read of a manifest. integration/manifests reads all of it.
type document struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string `yaml:"stringData"`
	Spec     struct {
		Template    template
		JobTemplate struct{ Spec struct{ Template template } } `yaml:"jobTemplate"`
	}
}

type template struct {
	Spec struct{ Containers []container }
}

type container struct {
	Command, Args []string
	Env           []struct{ Name, Value string }
}

func documents(t testing.TB, text []byte) (all []document) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var one document
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, one)
	}
}

// described returns the container of a kind of object in a file.
func described(t testing.TB, file, kind string) container {
	t.Helper()
	for _, d := range documents(t, []byte(content(t, file))) {
		if d.Kind == kind {
			return slices.Concat(d.Spec.Template.Spec.Containers, d.Spec.JobTemplate.Spec.Template.Spec.Containers)[0]
		}
	}
	t.Fatalf("%s has no %s", file, kind)
	return container{}
}

func content(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, file))
	require.NoError(t, err)
	return string(text)
}

// fleet is three servers, the Secrets of their clients, and where both run.
type fleet struct {
	*redistest.Named
	nodes   []*redistest.Node
	secrets map[string]map[string]string
	env     map[string]string // of all clients, beside that of the manifests
	ca      string            // the authority of the servers, under TLS
	overlay string            // a file of configuration that the servers read as well, "" for none
	acl     func(string) string
}

var letters = []string{"a", "b", "c"}

func host(letter string) string { return "redlock-" + letter + ".redlock.svc" }

// deploy starts the servers of the manifests.
func deploy(t testing.TB, overlay string) *fleet {
	t.Helper()
	f := &fleet{overlay: overlay, env: make(map[string]string), acl: func(acl string) string { return acl }}
	f.start(t)
	return f
}

// start starts new servers on a new network. acl changes their users.
func (f *fleet) start(t testing.TB) {
	t.Helper()
	overlay, underTLS := f.overlay, f.overlay == tlsConf
	var args []string
	if underTLS {
		args = []string{"--tls"}
	}
	printed, err := exec.CommandContext(t.Context(), filepath.Join(manifests, "secrets"), args...).Output()
	require.NoError(t, err)
	f.secrets = make(map[string]map[string]string)
	for _, s := range documents(t, printed) {
		f.secrets[s.Metadata.Name] = s.Data
	}
	files := map[string]string{"/etc/redlock/conf/redis.conf": content(t, "base/servers/redis.conf")}
	var more []string
	if overlay != "" {
		in := "/etc/redlock/conf/" + filepath.Base(overlay)
		files[in] = content(t, overlay)
		more = []string{"--include", in}
	}
	f.Named = redistest.StartNamed(t)
	authority := redistest.NewAuthority(t, "servers")
	var servers []redistest.NamedServer
	for i, letter := range letters {
		own := map[string]string{"/etc/redlock/users/users.acl": f.acl(f.secrets["redlock-server-"+letter]["users.acl"])}
		maps.Copy(own, files)
		dial := []redis.DialOption{redis.DialUsername("admin"), redis.DialPassword(f.password(t, "redlock-admin", i))}
		if underTLS {
			cert, key, ca := authority.Files(t, host(letter))
			own["/etc/redlock/tls/tls.crt"], own["/etc/redlock/tls/tls.key"], own["/etc/redlock/tls/ca.crt"] = cert, key, ca
			f.ca = ca
			dial = append(dial, redis.DialUseTLS(true),
				redis.DialTLSConfig(&tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}))
		}
		servers = append(servers, redistest.NamedServer{
			Name: host(letter), Files: own, Dial: dial,
			Args: append(described(t, "base/servers/server-"+letter+".yaml", "StatefulSet").Args, more...),
		})
	}
	f.nodes = f.Servers(t, servers...)
}

// password returns the password of a user on the server i.
func (f *fleet) password(t testing.TB, secret string, i int) string {
	t.Helper()
	u, err := url.Parse(strings.Fields(f.secrets[secret]["nodes"])[i])
	require.NoError(t, err)
	password, _ := u.User.Password()
	return password
}

// image builds the image of deploy/Dockerfile, once for all tests of this process.
func image(t testing.TB) string {
	t.Helper()
	name, err := built()
	require.NoError(t, err)
	return name
}

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "redlock-image")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), text, 0o600); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-race=false", "-o", filepath.Join(dir, "redlock"),
		"github.com/quorumlock/go-redlock/cmd/redlock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	name := fmt.Sprintf("go-redlock/test-%016x", rand.Uint64())
	if out, err := exec.Command("docker", "build", "-q", "-t", name, dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	imageBuilt = name
	return name, nil
})

var imageBuilt string // "" before

func TestMain(m *testing.M) {
	status := redistest.Run(m)
	if imageBuilt != "" {
		_ = exec.Command("docker", "rmi", "-f", imageBuilt).Run()
	}
	os.Exit(status)
}

// run starts a client of the manifests, with further arguments.
func (f *fleet) run(t testing.TB, c container, secret string, args ...string) *redistest.Program {
	t.Helper()
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	maps.Copy(env, f.env)
	require.Equal(t, nodesFile, env["REDLOCK_NODES_FILE"])
	entrypoint := c.Command
	if entrypoint == nil {
		entrypoint = []string{"redlock"} // that of the image
	}
	files := map[string]string{nodesFile: f.secrets[secret]["nodes"]}
	if f.ca != "" {
		files[caFile] = f.ca
		c.Args = slices.Insert(slices.Clone(c.Args), 1, "--cacert="+caFile) // as the patches do
	}
	return f.Start(t, image(t), entrypoint, append(slices.Clone(c.Args), args...), env, files)
}

// command starts another subcommand where the CronJob runs.
func (f *fleet) command(t testing.TB, args ...string) *redistest.Program {
	t.Helper()
	c := described(t, "base/clients/cronjob.yaml", "CronJob")
	c.Args = args
	return f.run(t, c, "redlock-nodes")
}

// denials returns what the servers denied to whom.
func (f *fleet) denials(t testing.TB) (all []string) {
	t.Helper()
	for i, n := range f.nodes {
		entries, err := redis.Values(n.Do(t, "ACL", "LOG"), nil)
		require.NoError(t, err)
		for _, e := range entries {
			words, err := redis.Strings(e, nil)
			if err != nil { // numbers among them
				all = append(all, fmt.Sprintf("%s: %s", letters[i], e))
				continue
			}
			all = append(all, letters[i]+": "+strings.Join(words, " "))
		}
	}
	return all
}

func decoded[T any](t testing.TB, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}
