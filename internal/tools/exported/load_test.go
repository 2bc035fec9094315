package exported

import (
	"go/token"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatWasBuiltCanBeImported(t *testing.T) {
	packages, err := Load(token.NewFileSet(), "../../../clock", "../../../scripts")
	require.NoError(t, err)
	assert.Equal(t, []string{"github.com/quorumlock/go-redlock/clock"}, packages.Paths, "scripts has nothing but tests")

	p, err := packages.Import(packages.Paths[0])
	require.NoError(t, err)
	assert.NotNil(t, p.Scope().Lookup("System"))
}

func TestCodeThatDoesNotBuildIsAnErrorInTheCompilersWords(t *testing.T) {
	_, err := Load(token.NewFileSet(), "./gone")
	require.ErrorContains(t, err, "gone")
}
