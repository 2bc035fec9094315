// Package sqlfence tests contrib/sqlfence with locks of real Redis servers, on SQLite, PostgreSQL and
// MariaDB, and the program of its README.
//
// The databases run in Docker containers. REDLOCK_TEST_POSTGRES and REDLOCK_TEST_MARIADB name their
// images. The defaults are postgres:17 and mariadb:11. scripts/sql-image builds images of both on
// machines that reach no image registry.
package sqlfence
