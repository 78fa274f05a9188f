const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })

/** `1,234`. */
export function wholeNumber(value: number): string {
  return grouped.format(value)
}

/** The server stops counting there. */
const countLimit = 10_000

/** `10,000+` for a number of several that reached the limit. */
export function atLeast(value: number, capped: boolean): string {
  return capped && value >= countLimit ? `${wholeNumber(value)}+` : wholeNumber(value)
}

/** `Parked`. */
export function capitalised(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}

/** `1 record`, `1,234 records`, `10,000+ records` for a number that is a lower limit. */
export function counted(amount: number, noun: string, capped = false): string {
  return `${wholeNumber(amount)}${capped ? '+' : ''} ${amount === 1 && !capped ? noun : `${noun}s`}`
}

const sizeUnits = ['kB', 'MB', 'GB']

/** `0 B`, `1.2 kB`, `35 MB`. */
export function bytes(size: number): string {
  if (size < 1000) return `${size} B`
  let [value, unit] = [size / 1000, 0]
  while (value >= 1000 && unit < sizeUnits.length - 1) {
    value /= 1000
    unit += 1
  }
  return `${value < 10 ? value.toFixed(1) : Math.floor(value)} ${sizeUnits[unit]}`
}
