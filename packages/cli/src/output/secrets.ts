const mask = '***'

/** Query parameters of a URL that contain secrets. */
const secretName = /pass|secret|token|key|credential/i

/** `scheme://user:password@`, in any text. */
const userInformation = /([a-z0-9+.-]*):\/\/([^\s/?#]*)@/gi

/** Without a password the user name is a token, with NATS. */
const mayHaveToken = /(^|=)(nats|tls|wss?):/i

/** Schemes of stores and brokers, whose user names are no secrets. */
const hasUserName = /^(postgres(ql)?|mysql|mariadb|rediss?(\+cluster)?|amqp(10)?s?|kafkas?|mqtts?|nats|tls)$/i

/**
 * User and password as they are shown in a URL: `app:***@`, `app@`, and `:***@` for a password without a user. A user that may be a token is masked:
 * one of NATS without a password, and that of a URL with any other scheme.
 */
export function shownCredentials(scheme: string, user: string, password: string): string {
  if (user === '' && password === '') return ''
  if (!hasUserName.test(scheme) || (password === '' && mayHaveToken.test(`${scheme}:`))) return `${mask}@`
  return `${user}${password === '' ? '' : `:${mask}`}@`
}

/** Texts that must never be printed: the passwords and tokens of the URLs passed to the command. */
export class Secrets {
  readonly #values = new Set<string>()

  /** Accepts the text as it was typed, even if it is not a valid URL, or follows the name of an option: `--store=…`. */
  addUrl(text: string): void {
    for (const { user, password } of credentialsOf(text)) this.#add(password ?? (mayHaveToken.test(text) ? user : undefined))
    for (const { name, value } of queryOf(text)) if (secretName.test(name)) this.#add(value)
  }

  mask(text: string): string {
    let masked = text
    // The longest first: a password may begin with another. All before the pattern, which matches only a part of a password that contains an `@`.
    for (const value of [...this.#values].sort((one, other) => other.length - one.length))
      masked = masked.replaceAll(patternOf(value), mask)
    return masked.replaceAll(userInformation, (_, scheme: string, credentials: string) => {
      const [user = '', ...password] = credentials.split(':')
      return `${scheme}://${shownCredentials(scheme, user, password.join(':'))}`
    })
  }

  #add(value: string | undefined): void {
    if (value === undefined || value === '') return
    for (const form of [value, value.replaceAll('+', ' ')]) {
      this.#values.add(form)
      this.#values.add(encodeURIComponent(form))
      try {
        this.#values.add(decodeURIComponent(form))
      } catch {
        // The password is not percent-encoded.
      }
    }
  }
}

/** A shorter secret is part of many words, and the gaps would reveal it. */
const shortest = 3

/**
 * Positions where the text may be the secret: neither the scheme of a URL nor the user before a password is one, though many passwords are `postgres`
 * or `guest`, as their users are.
 */
function patternOf(value: string): RegExp {
  const literal = value.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  const end = `(?!://|(?<=://${literal}):)`
  return value.length < shortest
    ? new RegExp(`(?<![\\p{L}\\p{N}])${literal}(?![\\p{L}\\p{N}])${end}`, 'gu')
    : new RegExp(`${literal}${end}`, 'gu')
}

interface Credentials {
  readonly user: string
  readonly password: string | undefined
}

/** Found without a URL parser: an invalid URL has a password too. There may be two readings, if there is an `@` behind a slash. */
function credentialsOf(text: string): readonly Credentials[] {
  const [, ...rest] = text.split('://')
  return [/^([^/?#]*)@/, /^(.*)@/s].flatMap((reading) => {
    const [, found] = reading.exec(rest.join('://')) ?? []
    if (found === undefined) return []
    const [user = '', ...password] = found.split(':')
    return [{ user, password: password.length === 0 ? undefined : password.join(':') }]
  })
}

/** As it was typed. Any `?` may start the query. */
function queryOf(text: string): readonly { readonly name: string; readonly value: string }[] {
  return [...text.matchAll(/[?&](?=([^=&?]*)=([^&]*))/g)].map(([, name = '', value = '']) => ({ name, value }))
}
