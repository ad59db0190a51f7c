// Pictures as inline SVG. Colours are classes, so that the page's style sheet can follow light and dark.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace smelt::report {

class Svg {
public:
  // Of so many units; scales to the width of its place. The title is read out to those who cannot see it.
  Svg(double width, double height, std::string_view title);

  void rect(double x, double y, double width, double height, std::string_view style_class,
            std::string_view tooltip = "");
  void circle(double x, double y, double radius, std::string_view style_class, std::string_view tooltip = "");
  void line(double x1, double y1, double x2, double y2, std::string_view style_class);
  void polyline(const std::vector<std::pair<double, double>> &points, std::string_view style_class);
  void path(std::string_view data, std::string_view style_class, std::string_view tooltip = "");
  // anchor: "start", "middle" or "end".
  void text(double x, double y, std::string_view text, std::string_view anchor = "start",
            std::string_view style_class = "label");
  std::string str() const;

private:
  std::string body;
};

// Maps a range of values, linear or logarithmic, onto a range of units.
class Scale {
public:
  Scale(double low, double high, double from, double to, bool logarithmic = false);
  double operator()(double value) const;
  // Round values to mark, about so many; decades and their 2nd and 5th parts on a logarithmic scale.
  std::vector<double> ticks(int count) const;

private:
  double place(double value) const;
  double low, high, from, to;
  bool logarithmic;
};

} // namespace smelt::report
