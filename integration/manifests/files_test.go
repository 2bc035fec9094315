package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// read reads a kustomization. An unknown field is an error.
func read(t *testing.T, kustomization string) (k types.Kustomization) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, kustomization, "kustomization.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &k), kustomization)
	return k
}

// named returns the files and folders that a kustomization names.
func named(k types.Kustomization) (names []string) {
	names = append(names, k.Resources...)
	for _, p := range k.Patches {
		if p.Path != "" {
			names = append(names, p.Path)
		}
	}
	for _, c := range k.ConfigMapGenerator {
		names = append(names, c.FileSources...)
	}
	return names
}

func TestEachFileIsNamedAndEachNameIsAFile(t *testing.T) {
	for _, k := range kustomizations(t) {
		names := named(read(t, k))
		for _, name := range names {
			require.FileExists(t, kustomizationOr(filepath.Join(folder, k, name)), k)
		}
		found, err := os.ReadDir(filepath.Join(folder, k))
		require.NoError(t, err)
		for _, f := range found {
			if f.Name() != "kustomization.yaml" {
				require.Contains(t, names, f.Name(), k)
			}
		}
	}
}

// kustomizationOr returns the kustomization in a folder, or the path of a file.
func kustomizationOr(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, "kustomization.yaml")
	}
	return path
}

// Each file of a base can be applied by itself.
func TestEachManifestDecodesStrictly(t *testing.T) {
	for _, pattern := range []string{"base/*/*.yaml", "overlays/*/*/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			_, err = decode(t, text)
			require.NoError(t, err, file)
		}
	}
}

func TestTheThreeServersDifferInTheirLetterAlone(t *testing.T) {
	server := func(letter string) string {
		text, err := os.ReadFile(filepath.Join(folder, "base/servers", fmt.Sprintf("server-%s.yaml", letter)))
		require.NoError(t, err)
		return string(text)
	}
	for _, letter := range []string{"b", "c"} {
		own := regexp.MustCompile(`((?:Server |redlock-|redlock-server: |redlock-server-))` + letter + `\b`)
		require.Equal(t, server("a"), own.ReplaceAllString(server(letter), "${1}a"))
	}
}
