"""Trust: who is who, at which time, and who may join. Pure decisions: `now`, seeds, chance are arguments.

Never here: a clock, a socket, a file, a log line, OpenSSL's opinion about times.

Read `keys` (signatures, fingerprints), `authority` (certificates), `chain` (both ends check each other, and the
time), `tokens` (join codes), `attest` (why a stranger is let in), `enrol` (what it becomes), then `rotation`,
`marks`, `lineage`, `signed_tokens`. The prose is docs/contracts/trust.md and docs/contracts/enrolment.md.
"""
