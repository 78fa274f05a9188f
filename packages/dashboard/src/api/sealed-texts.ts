import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { invalid } from '../http/api-failure.ts'

const prefix = 'redacted:'
const algorithm = 'aes-256-gcm'
const [nonceLength, tagLength] = [12, 16]

/**
 * Texts that users may not see, in a form that they can send back: to filter by the group that they chose. They are encrypted with a key of this object, so that nothing has to
 * be remembered, and the same text has the same form.
 */
export class SealedTexts {
  readonly #key = randomBytes(32)

  /** The value that stands for the text where users see `shown`: the text itself, if they see it. */
  referenceTo(text: string, shown: string | undefined): string {
    return text === shown && !text.startsWith(prefix) ? text : this.#seal(text)
  }

  /** The text behind a reference. */
  resolve(reference: string): string {
    if (!reference.startsWith(prefix)) return reference
    const bytes = Buffer.from(reference.slice(prefix.length), 'base64url')
    try {
      const decipher = createDecipheriv(algorithm, this.#key, bytes.subarray(0, nonceLength), { authTagLength: tagLength })
      decipher.setAuthTag(bytes.subarray(nonceLength, nonceLength + tagLength))
      return Buffer.concat([decipher.update(bytes.subarray(nonceLength + tagLength)), decipher.final()]).toString()
    } catch {
      throw invalid('A redacted value is from before the dashboard was restarted. Choose it again.')
    }
  }

  #seal(text: string): string {
    // Depends on the text: the same nonce for two texts would reveal both.
    const nonce = createHmac('sha256', this.#key).update(text).digest().subarray(0, nonceLength)
    const cipher = createCipheriv(algorithm, this.#key, nonce, { authTagLength: tagLength })
    const content = Buffer.concat([cipher.update(text), cipher.final()])
    return `${prefix}${Buffer.concat([nonce, cipher.getAuthTag(), content]).toString('base64url')}`
  }
}
