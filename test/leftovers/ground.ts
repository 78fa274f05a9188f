/** A server or directory in which tests create resources. */
export interface Ground {
  readonly name: string
  /** The names of this run's resources there. Rejects if the server is not running. */
  list(): Promise<readonly string[]>
  remove(names: readonly string[]): Promise<void>
}
