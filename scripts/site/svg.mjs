// @ts-check
// The look that all drawings of the site share. A drawing has a background of its own, so that it is legible on a page whose colours differ from the system's.

export const sansSerif = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif'
export const monospace = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace'

export const light = { card: '#fff', border: '#e0dde4', text: '#25232a', muted: '#5d5866', brand: '#6b3a80', other: '#7d7a85' }
export const dark = { card: '#1b1b1f', border: '#3b3840', text: '#ece9f0', muted: '#aaa4b3', brand: '#b886cc', other: '#8d8a96' }

/** @param {string} text */
export function escapeXml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
