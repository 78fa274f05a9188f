const mask = '***'

/** Settings in a URL's query that are nobody's business. */
const secretName = /pass|secret|token|key|credential/i

/** `://user:password@`, whoever wrote it. */
const userInformation = /:\/\/[^\s/?#]*@/g

/** Without a password the name is a token, with NATS. */
const takesToken = /(^|=)(nats|tls|wss?):/i

/** What must never be printed: the passwords and tokens of the URLs that the command was given. */
export class Secrets {
  readonly #values = new Set<string>()

  /** Takes it as it was typed, also if it is no URL, or one behind the name of an option: `--store=…`. */
  addUrl(text: string): void {
    for (const { user, password } of credentialsOf(text)) this.#add(password ?? (takesToken.test(text) ? user : undefined))
    for (const { name, value } of queryOf(text)) if (secretName.test(name)) this.#add(value)
  }

  mask(text: string): string {
    let masked = text
    // The longest first: a password may begin with another. All before the pattern, which takes a part of one that has an `@` in it.
    for (const value of [...this.#values].sort((one, other) => other.length - one.length))
      masked = masked.replaceAll(patternOf(value), mask)
    return masked.replaceAll(userInformation, `://${mask}@`)
  }

  #add(value: string | undefined): void {
    if (value === undefined || value === '') return
    for (const form of [value, value.replaceAll('+', ' ')]) {
      this.#values.add(form)
      this.#values.add(encodeURIComponent(form))
      try {
        this.#values.add(decodeURIComponent(form))
      } catch {
        // It is not encoded.
      }
    }
  }
}

/** Below this a secret is a part of many words, and what is missing in them would tell it. */
const shortest = 3

/** Where it may be the secret: the scheme of a URL is none, though many a password is `postgres`. */
function patternOf(value: string): RegExp {
  const literal = value.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  return value.length < shortest
    ? new RegExp(`(?<![\\p{L}\\p{N}])${literal}(?![\\p{L}\\p{N}]|://)`, 'gu')
    : new RegExp(`${literal}(?!://)`, 'gu')
}

interface Credentials {
  readonly user: string
  readonly password: string | undefined
}

/** Found without a parser of URLs: one that cannot be parsed has a password too. There may be two readings, if there is an `@` behind a slash. */
function credentialsOf(text: string): readonly Credentials[] {
  const [, ...rest] = text.split('://')
  return [/^([^/?#]*)@/, /^(.*)@/s].flatMap((reading) => {
    const [, found] = reading.exec(rest.join('://')) ?? []
    if (found === undefined) return []
    const [user = '', ...password] = found.split(':')
    return [{ user, password: password.length === 0 ? undefined : password.join(':') }]
  })
}

/** As it was typed. Any `?` may be the one that the query begins with. */
function queryOf(text: string): readonly { readonly name: string; readonly value: string }[] {
  return [...text.matchAll(/[?&](?=([^=&?]*)=([^&]*))/g)].map(([, name = '', value = '']) => ({ name, value }))
}
