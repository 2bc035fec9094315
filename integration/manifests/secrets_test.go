package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// printed returns the Secrets that the script prints, by name.
func printed(t *testing.T, args ...string) map[string]map[string]string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), folder+"/secrets", args...).Output()
	require.NoError(t, err)
	all, err := decode(t, text)
	require.NoError(t, err)
	found := make(map[string]map[string]string)
	for _, s := range of[*corev1.Secret](all) {
		require.Equal(t, "redlock", s.Namespace)
		found[s.Name] = s.StringData
	}
	return found
}

// users returns the rights of each user of a server, and the sum of its password.
func users(t *testing.T, acl string) (rights map[string][]string, sums map[string]string) {
	t.Helper()
	rights, sums = make(map[string][]string), make(map[string]string)
	for line := range strings.Lines(acl) {
		words := strings.Fields(line)
		require.Equal(t, "user", words[0])
		require.Equal(t, "reset", words[2])
		for _, w := range words[3:] {
			if sum, ok := strings.CutPrefix(w, "#"); ok {
				sums[words[1]] = sum
			} else {
				rights[words[1]] = append(rights[words[1]], w)
			}
		}
	}
	return rights, sums
}

// documented returns the rights of rows of the table in docs/operations.md.
func documented(t *testing.T, rows ...string) (rights []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	for _, row := range rows {
		line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \|.*$`).FindString(string(page))
		require.NotEmpty(t, line, row)
		for _, code := range regexp.MustCompile("`([+~&][^`]*)`").FindAllStringSubmatch(line, -1) {
			rights = append(rights, strings.Fields(strings.ReplaceAll(code[1], `\|`, "|"))...)
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}

func TestTheUsersHaveTheDocumentedRightsAndNoneMore(t *testing.T) {
	const everyLock = "every lock"
	const single = "a node that is one master, also behind Sentinels; with or without the restart guard"
	nothing := []string{"on", "resetchannels", "-@all"}
	for name, secret := range printed(t) {
		acl, ok := secret["users.acl"]
		if !ok {
			continue
		}
		rights, _ := users(t, acl)
		require.Len(t, rights, 5, name)
		require.Equal(t, []string{"off", "~*", "&*", "+@all"}, rights["default"],
			"a server executes its file by these rights")
		require.ElementsMatch(t, append(slices.Clone(nothing),
			documented(t, everyLock, single, "waiting: `Acquire`, `AcquireAll`, `Do`",
				"`Locker.Healthy`", "the restart guard", "fencing")...), rights["app"])
		require.ElementsMatch(t, append(slices.Clone(nothing),
			documented(t, everyLock, single, "`doctor.Diagnose`, `redlock doctor`")...), rights["doctor"])
		require.ElementsMatch(t, append(slices.Clone(nothing), "+ping"), rights["probe"])
		require.ElementsMatch(t, []string{"on", "~*", "&*", "+@all"}, rights["admin"])
	}
}

func TestEachUserHasAnotherPasswordOnEachServer(t *testing.T) {
	for scheme, args := range map[string][]string{"redis": nil, "rediss": {"--tls"}} {
		secrets := printed(t, args...)
		require.Len(t, secrets, 6)
		passwords := make(map[string]bool)
		noted := func(server, user, password string) {
			require.Len(t, password, 48)
			require.False(t, passwords[password], "two have one password")
			passwords[password] = true
			acl := secrets["redlock-server-"+server]["users.acl"]
			require.NotContains(t, acl, password)
			_, sums := users(t, acl)
			sum := sha256.Sum256([]byte(password))
			require.Equal(t, sums[user], hex.EncodeToString(sum[:]))
		}
		for user, name := range map[string]string{
			"app": "redlock-nodes", "doctor": "redlock-doctor",
			"admin": "redlock-admin",
		} {
			list := strings.Fields(secrets[name]["nodes"])
			require.Len(t, list, 3)
			for i, server := range []string{"a", "b", "c"} {
				u, err := url.Parse(list[i])
				require.NoError(t, err)
				password, _ := u.User.Password()
				require.Equal(t, scheme+"://"+user+":"+password+"@redlock-"+server+".redlock.svc:6379?name="+server, list[i])
				noted(server, user, password)
			}
		}
		for _, server := range []string{"a", "b", "c"} {
			noted(server, "probe", secrets["redlock-server-"+server]["probe"])
		}
	}
}

func TestTheSecretsAreThoseThatTheManifestsMount(t *testing.T) {
	secrets := printed(t)
	for _, k := range kustomizations(t) {
		for _, w := range workloads(render(t, k)) {
			for _, v := range w.pod.Spec.Volumes {
				if v.Secret == nil || strings.HasSuffix(v.Secret.SecretName, "-tls") {
					continue
				}
				require.Contains(t, secrets, v.Secret.SecretName, w.name)
				for _, i := range v.Secret.Items {
					require.Contains(t, secrets[v.Secret.SecretName], i.Key, w.name)
				}
			}
			for _, e := range w.pod.Spec.Containers[0].Env {
				if from := e.ValueFrom; from != nil {
					require.Contains(t, secrets[from.SecretKeyRef.Name], from.SecretKeyRef.Key, w.name)
				}
			}
		}
	}
}
