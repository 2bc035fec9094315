package redlock

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGradesAreWordsInJSON(t *testing.T) {
	for grade, word := range map[Grade]string{GradeNote: "note", GradeWarning: "warning", GradeError: "error"} {
		f := Finding{Grade: grade, Code: "c", Text: "t"}
		text, err := json.Marshal(f)
		require.NoError(t, err)
		require.JSONEq(t, `{"grade":"`+word+`","code":"c","text":"t"}`, string(text))
		var back Finding
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, f, back)
	}
}
