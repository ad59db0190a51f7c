#include "compiler/Report/ResidualPlot.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <vector>

namespace smelt::report {

namespace {

// The plotted area in data coordinates: log10 of compute, and residuals as far from 0 on both sides.
struct Frame {
  double left = 0;
  double right = 0;
  double height = 0;

  double x(double training_flops) const { return (std::log10(training_flops) - left) / (right - left); }
  // From 0 at the bottom to 1 at the top.
  double y(double residual) const { return 0.5 + 0.5 * residual / height; }
};

Frame frameOf(std::span<const Residual> residuals) {
  Frame frame{1e300, -1e300, 0};
  for (const Residual &residual : residuals) {
    double compute = std::log10(residual.training_flops);
    frame.left = std::min(frame.left, compute);
    frame.right = std::max(frame.right, compute);
    frame.height = std::max(frame.height, std::abs(residual.value));
  }
  double margin = std::max(0.03 * (frame.right - frame.left), 0.01);
  frame.left -= margin;
  frame.right += margin;
  frame.height = std::max(frame.height * 1.05, 1e-9);
  return frame;
}

std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text) {
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    default:
      result += c;
    }
  }
  return result;
}

constexpr int width = 760;
constexpr int height = 420;
constexpr int left_margin = 80;
constexpr int right_margin = 130;
constexpr int top_margin = 40;
constexpr int bottom_margin = 50;

double pixelX(double part) { return left_margin + part * (width - left_margin - right_margin); }
double pixelY(double part) { return height - bottom_margin - part * (height - top_margin - bottom_margin); }

// Okabe and Ito's colours, which colour-blind readers tell apart and which show on white and on black.
constexpr const char *colours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"};

std::string axes(const Frame &frame) {
  std::string svg;
  for (int i = -2; i <= 2; ++i) {
    double residual = frame.height * i / 2;
    double y = pixelY(frame.y(residual));
    svg += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                       i == 0 ? "zero" : "grid", pixelX(0), y, pixelX(1), y);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:+.2g}</text>\n", pixelX(0) - 8,
                       y + 4, residual);
  }
  // Whole decades where there are two or more, else the ends.
  std::vector<double> ticks;
  for (int decade = static_cast<int>(std::ceil(frame.left)); decade <= frame.right; ++decade) {
    ticks.push_back(decade);
  }
  if (ticks.size() < 2) {
    ticks = {frame.left, frame.right};
  }
  for (double tick : ticks) {
    double x = pixelX((tick - frame.left) / (frame.right - frame.left));
    svg += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x,
                       pixelY(0), x, pixelY(1));
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.2g}</text>\n", x,
                       pixelY(0) + 18, std::pow(10, tick));
  }
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">training FLOPs</text>\n",
                     pixelX(0.5), height - 10);
  svg +=
      fmt::format("<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\">measured less "
                  "predicted loss, nats</text>\n",
                  pixelY(0.5));
  return svg;
}

} // namespace

std::string residualText(std::span<const Residual> residuals) {
  constexpr size_t columns = 64;
  constexpr size_t rows = 11; // odd: the middle one is 0
  if (residuals.empty()) {
    return "";
  }
  Frame frame = frameOf(residuals);
  std::vector<std::vector<int>> counts(rows, std::vector<int>(columns, 0));
  auto place = [](double part, size_t cells) {
    return std::min(static_cast<size_t>(std::max(part, 0.0) * static_cast<double>(cells)), cells - 1);
  };
  for (const Residual &residual : residuals) {
    ++counts[rows - 1 - place(frame.y(residual.value), rows)]
            [place(frame.x(residual.training_flops), columns)];
  }
  std::string text = "measured less predicted loss (nats) against training FLOPs\n";
  for (size_t row = 0; row < rows; ++row) {
    bool labelled = row == 0 || row == rows / 2 || row == rows - 1;
    double middle = frame.height * (1 - (2.0 * static_cast<double>(row) + 1) / rows);
    text +=
        labelled ? fmt::format("{:>+9.1e} |", row == rows / 2 ? 0.0 : middle) : fmt::format("{:>9} |", "");
    std::string line;
    for (int count : counts[row]) {
      line += count == 0   ? (row == rows / 2 ? '-' : ' ')
              : count == 1 ? 'o'
              : count < 10 ? char('0' + count)
                           : '#';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  std::string right = fmt::format("{:.2g}", std::pow(10, frame.right));
  std::string left = fmt::format("{:.2g}", std::pow(10, frame.left));
  text += fmt::format("{:>9}  {}{:>{}}\n", "", left, right, columns - left.size());
  return text;
}

std::string residualSvg(std::span<const Residual> residuals, const std::string &title) {
  if (residuals.empty()) {
    return "";
  }
  Frame frame = frameOf(residuals);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\">\n<title>{2}</title>\n"
      "<style>\n"
      "text {{ font: 12px sans-serif; fill: #222; }} .back {{ fill: #fff; }}\n"
      ".grid {{ stroke: #ddd; }} .zero {{ stroke: #555; }}\n"
      "@media (prefers-color-scheme: dark) {{ text {{ fill: #ddd; }} .back {{ fill: #181818; }} .grid {{ "
      "stroke: "
      "#3a3a3a; }} .zero {{ stroke: #999; }} }}\n"
      "</style>\n<rect class=\"back\" width=\"{0}\" height=\"{1}\"/>\n"
      "<text x=\"{3}\" y=\"24\" style=\"font-size: 15px\">{2}</text>\n",
      width, height, escaped(title), left_margin);
  svg += axes(frame);
  std::vector<double> sparsities;
  for (const Residual &residual : residuals) {
    sparsities.push_back(residual.sparsity);
  }
  std::sort(sparsities.begin(), sparsities.end());
  sparsities.erase(std::unique(sparsities.begin(), sparsities.end()), sparsities.end());
  auto colour = [&](double sparsity) {
    auto index = std::lower_bound(sparsities.begin(), sparsities.end(), sparsity) - sparsities.begin();
    return colours[static_cast<size_t>(index) % std::size(colours)];
  };
  for (const Residual &residual : residuals) {
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" fill-opacity=\"0.8\"/>\n",
                       pixelX(frame.x(residual.training_flops)), pixelY(frame.y(residual.value)),
                       colour(residual.sparsity));
  }
  if (sparsities.size() <= std::size(colours)) { // more would share colours
    for (size_t i = 0; i < sparsities.size(); ++i) {
      double y = pixelY(1) + 10 + 20.0 * static_cast<double>(i);
      svg +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n<text x=\"{:.1f}\" "
                      "y=\"{:.1f}\">S = {:.4g} %</text>\n",
                      pixelX(1) + 20, y, colour(sparsities[i]), pixelX(1) + 32, y + 4, 100 * sparsities[i]);
    }
  }
  return svg + "</svg>\n";
}

} // namespace smelt::report
