package schedulers

import (
	"os"
	"testing"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }
