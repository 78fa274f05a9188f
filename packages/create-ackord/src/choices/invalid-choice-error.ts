/** A mistake in the arguments. The command prints its text without a stack. */
export class InvalidChoiceError extends Error {
  static {
    this.prototype.name = 'InvalidChoiceError'
  }
}
