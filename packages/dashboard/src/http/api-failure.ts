/** A request that is refused, with the answer to it. The message is shown to the client. */
export class ApiFailure extends Error {
  static {
    this.prototype.name = 'ApiFailure'
  }

  readonly status: number
  readonly code: string
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message)
    this.status = status
    this.code = code
    this.headers = headers
  }
}

export function invalid(message: string): ApiFailure {
  return new ApiFailure(400, 'invalid', message)
}

export function forbidden(code: string, message: string): ApiFailure {
  return new ApiFailure(403, code, message)
}

export function notFound(message: string): ApiFailure {
  return new ApiFailure(404, 'not_found', message)
}

/** The request is valid, but cannot be carried out with this store or record. */
export function conflict(code: string, message: string): ApiFailure {
  return new ApiFailure(409, code, message)
}

export function tooMany(message: string): ApiFailure {
  return new ApiFailure(429, 'too_many', message)
}
