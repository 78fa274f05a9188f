const mask = '***'

/** Settings in a URL's query that are nobody's business. */
const secretName = /pass|secret|token|key|credential/i

/** `scheme://user:password@`, whoever wrote it. */
const userInformation = /([a-z][a-z0-9+.-]*:\/\/)[^\s/?#]*@/gi

/** What must never be printed: the passwords and tokens of the URLs that the command was given. */
export class Secrets {
  readonly #values = new Set<string>()

  /** Takes it as it was typed, also if it is no URL. */
  addUrl(text: string): void {
    const { user, password, query } = partsOf(text)
    // Without a password the name is a token, with NATS.
    this.#add(password ?? (/^(nats|tls|wss?):/i.test(text) ? user : undefined))
    for (const [name, value] of new URLSearchParams(query)) if (secretName.test(name)) this.#add(value)
  }

  mask(text: string): string {
    let masked = text.replaceAll(userInformation, `$1${mask}@`)
    for (const value of this.#values) masked = masked.replaceAll(value, mask)
    return masked
  }

  #add(value: string | undefined): void {
    if (value === undefined || value === '') return
    this.#values.add(value)
    try {
      this.#values.add(decodeURIComponent(value))
    } catch {
      // It is not encoded.
    }
    this.#values.add(encodeURIComponent(value))
  }
}

/** Found without a parser of URLs: one that cannot be parsed has a password too. */
function partsOf(text: string): { readonly user?: string | undefined; readonly password?: string | undefined; readonly query: string } {
  const query = text.includes('?') ? text.slice(text.lastIndexOf('?') + 1) : ''
  const start = text.indexOf('://')
  const end = text.lastIndexOf('@')
  if (start === -1 || end < start) return { query }
  const [user = '', ...rest] = text.slice(start + 3, end).split(':')
  return { user, password: rest.length === 0 ? undefined : rest.join(':'), query }
}
