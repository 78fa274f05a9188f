/** For scripts: `split(text)` returns the words of a string, and their number. */
export const splitLua = `local function split(text)
  local parts, count = {}, 0
  for part in string.gmatch(text, '%S+') do
    count = count + 1
    parts[count] = part
  end
  return parts, count
end`
