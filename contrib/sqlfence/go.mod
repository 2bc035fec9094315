module github.com/quorumlock/go-redlock/contrib/sqlfence

go 1.25.0

replace github.com/quorumlock/go-redlock => ../..

require (
	github.com/quorumlock/go-redlock v0.1.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.46.0 // indirect
)
