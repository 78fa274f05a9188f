/** The user has ended the questions with Ctrl-C or Escape. */
export class CancelledError extends Error {
  static {
    this.prototype.name = 'CancelledError'
  }
}
