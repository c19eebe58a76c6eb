"""Secure sum: sites compute a sum whose addends nobody sees.

Two profiles on Ed25519 identities, X25519, HKDF-SHA-256, AES-256 and arithmetic modulo 2^64:

* RETRY (`Session.retry_mask`, `retry_sum`): one message per site, nothing ever revealed; a drop-out costs a
  new attempt with freshly drawn inputs.
* RECOVER (`Session.offer` ... `Session.open`, `RecoverRound`): Bonawitz et al. (2017) with secrets that
  belong to one round, so that inputs which cannot be drawn again survive drop-outs.

Everything here is a state machine driven by messages; protocols and transports deliver them. docs/secure_sum.md
proves that this is private, and states its limits.
"""
